//! A program's way to the devices of a server.

use super::credential::{credential, unique};
use super::devices::{self, RemoteDevice};
use super::hello::{Declaration, RELEASE};
use super::offer;
use super::wire::SCHEMA;
use super::{Address, InvalidAddress};
use burn::remote::RemoteHost;
use burn::tensor::{Device, ExecutionError};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Why a server's devices can't be had.
#[derive(thiserror::Error)]
pub enum ConnectError {
    /// The address is none.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// The token is empty or another one.
    #[error("{address} refuses the token; `kernels serve` prints it when it starts")]
    Refused {
        /// Where the server is.
        address: Address,
    },
    /// The server has as many connections as it may have.
    #[error(
        "{address} has as many connections as it may have; `kernels serve --max-connections` allows more"
    )]
    Full {
        /// The server's address.
        address: Address,
    },
    /// The server closed the connection before there was a session.
    #[error(
        "{address} closed the connection: it lets in listed endpoints only (`--allow-endpoint`) or has as many as it may have, which its log tells; a program's endpoint stays the same with `client_identity`, for `kernels` with BURN_KERNELS_IDENTITY=FILE"
    )]
    Closed {
        /// The server's address.
        address: Address,
    },
    /// This program's own Iroh endpoint can't be had; see [`client_identity`](super::client_identity).
    #[error("{address} can't be reached from an endpoint of this program: {source}")]
    Endpoint {
        /// The server's address.
        address: Address,
        /// The cause.
        source: std::io::Error,
    },
    /// Nothing answers.
    #[error("{address} can't be reached: {reason}")]
    Unreachable {
        /// Where the server should be.
        address: Address,
        /// What failed.
        reason: String,
    },
    /// The server speaks another version of Burn's protocol.
    #[error("{address} and this program use different releases of Burn: {reason}")]
    Protocol {
        /// Where the server is.
        address: Address,
        /// Which versions.
        reason: String,
    },
    /// What answers serves devices, but without this crate's kernels.
    #[error(
        "{address} is no server of burn-kernels, or its device fails, which its log tells; start it with `kernels serve`, or reach its devices with Burn's `Device::remote_options`"
    )]
    NotOurs {
        /// Where the server is.
        address: Address,
    },
    /// The device can't even say what it is: it was lost, or its memory is full.
    #[error("device {index} of {address} fails: {reason}")]
    Device {
        /// Where the server is.
        address: Address,
        /// The device's place in the server's list.
        index: usize,
        /// What is known of it.
        reason: String,
    },
    /// Server and client would not compute the same.
    #[error(
        "{address} is burn-kernels {server}, this program {client}; use one release on both sides"
    )]
    Release {
        /// Where the server is.
        address: Address,
        /// Its release.
        server: String,
        /// This program's.
        client: String,
    },
    /// Anything else that Burn says.
    #[error("{address}: {source}")]
    Other {
        /// Where the server is.
        address: Address,
        /// Burn's own error.
        source: burn::remote::ConnectError,
    },
}

/// The sessions that this process opened on a server of its own.
static OWN: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// The devices of a server, in its order. They are ordinary Burn devices.
///
/// Every call opens sessions of its own: nothing is shared with devices that were given before. A
/// process can have 65,536 of them; none is given back before it ends.
///
/// # Errors
/// See [`ConnectError`]. A server that was started a moment ago is waited for, some 16 seconds.
pub fn connect(
    address: impl TryInto<Address, Error: Into<InvalidAddress>>,
    token: &str,
) -> Result<Vec<Device>, ConnectError> {
    let address = address.try_into().map_err(Into::into)?;
    let host = host(&address, token)?;
    // The first device's handshake says how many there are.
    let count = host.devices().map_err(|error| explain(&address, error))?;
    let devices = (0..count.len()).map(|index| device(&address, &host, index, token));
    devices.collect()
}

/// One of a server's devices: the others are not asked anything.
#[cfg(feature = "npu")]
pub(crate) fn connect_to(
    address: &Address,
    token: &str,
    index: usize,
) -> Result<Device, ConnectError> {
    let host = host(address, token)?;
    device(address, &host, index, token)
}

/// The server as Burn knows it, for sessions of their own.
fn host(address: &Address, token: &str) -> Result<RemoteHost, ConnectError> {
    let host = address.host(credential(token.as_bytes(), unique()));
    host.map_err(|source| ConnectError::Endpoint {
        address: address.clone(),
        source,
    })
}

fn device(
    address: &Address,
    host: &RemoteHost,
    index: usize,
    token: &str,
) -> Result<Device, ConnectError> {
    let options = Device::remote_options(host).device_index(index);
    let device = options.init().map_err(|error| explain(address, error))?;
    let not_ours = || ConnectError::NotOurs {
        address: address.clone(),
    };
    let handle = devices::handle(&device).ok_or_else(not_ours)?;
    let session = unique();
    let declared = offer::declaration(&handle, session).map_err(|failed| match failed {
        None => not_ours(),
        Some(reason) => ConnectError::Device {
            address: address.clone(),
            index,
            reason,
        },
    })?;
    if super::sessions::is_here(session) {
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        own.insert(session);
    }
    of_one_release(address, &declared)?;
    let token = token.as_bytes().to_vec();
    let remote = RemoteDevice::new(address.clone(), index, declared, session, token);
    tracing::info!("connected to {remote}");
    devices::enter(&device, remote);
    Ok(device)
}

/// Server and client would not compute the same, or not understand each other, otherwise.
fn of_one_release(address: &Address, declared: &Declaration) -> Result<(), ConnectError> {
    if (declared.schema, declared.release.as_str()) == (SCHEMA, RELEASE) {
        return Ok(());
    }
    Err(ConnectError::Release {
        address: address.clone(),
        server: format!("{} (schema {})", declared.release, declared.schema),
        client: format!("{RELEASE} (schema {SCHEMA})"),
    })
}

/// The answer of a full server's relay, as Burn tells it.
const FULL: &str = "503 Service Unavailable";

/// Whether Burn tells of an Iroh connection that the gate closed: how, depends on how far it was.
fn is_closed(reason: &str) -> bool {
    reason.ends_with("connection lost") || reason.contains("closed by peer")
}

fn explain(address: &Address, error: burn::remote::ConnectError) -> ConnectError {
    use burn::remote::ConnectError as Burn;
    let address = address.clone();
    match error {
        Burn::Unauthorized => ConnectError::Refused { address },
        Burn::Unreachable { reason } if reason.contains(FULL) => ConnectError::Full { address },
        Burn::Unreachable { reason } | Burn::Handshake { reason }
            if matches!(address, Address::Iroh { .. }) && is_closed(&reason) =>
        {
            ConnectError::Closed { address }
        }
        Burn::Unreachable { reason } => ConnectError::Unreachable { address, reason },
        Burn::IncompatibleProtocol { .. } => ConnectError::Protocol {
            address,
            reason: error.to_string(),
        },
        source => ConnectError::Other { address, source },
    }
}

/// What is said of a session that ended while all was well with its operations.
const CLOSED: &str = "no operation failed, and the session is closed: its server stopped or can't be reached, \
     or a tensor of 1 GiB or more was to cross the connection, which Burn does not send, or one that is larger \
     than the server takes (`--max-message`): move it in slices";

/// Why the session of a device failed: what the last panic on the server's side said, or what its
/// unfinished work failed with. `None` if it goes on, which is waited for, and for devices that
/// [`connect`] did not give.
///
/// Burn tells a client that its session ended, but not why. A server elsewhere is asked in a new session;
/// if it is gone, that takes as long as [`connect`] does.
pub fn failure(device: &Device) -> Option<String> {
    let remote = devices::entry(device)?;
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_own = own.contains(&remote.session);
    drop(own);
    // A server of this process need not be asked, and may be gone.
    let why = super::sessions::ending(remote.session);
    why.or_else(|| match device.sync() {
        Ok(()) => None,
        Err(ExecutionError::WithContext { reason }) => Some(reason),
        Err(_) if is_own => Some(CLOSED.to_owned()),
        Err(_) => Some(ask_why(&remote).unwrap_or_else(|| CLOSED.to_owned())),
    })
}

fn ask_why(remote: &RemoteDevice) -> Option<String> {
    let host = remote.address.host(credential(&remote.token, unique()));
    let host = host.ok()?;
    let options = Device::remote_options(&host).device_index(remote.index);
    let handle = devices::handle(&options.init().ok()?)?;
    offer::failure(&handle, remote.session)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceKind;
    use crate::remote::Identity;

    #[test]
    fn another_release_and_another_schema_are_refused() {
        let address: Address = "ws://127.0.0.1:1".parse().unwrap();
        let identity = Identity {
            kind: DeviceKind::Cpu,
            capability: 0,
            name: String::new(),
            facts: Vec::new(),
        };
        let same = Declaration::new(identity, &[]);
        of_one_release(&address, &same).unwrap();
        let release = Declaration {
            release: "0.0.9".to_owned(),
            ..same.clone()
        };
        let schema = Declaration {
            schema: SCHEMA + 1,
            ..same
        };
        for other in [release, schema] {
            let said = of_one_release(&address, &other).unwrap_err().to_string();
            for part in [&other.release, RELEASE, "use one release on both sides"] {
                assert!(said.contains(part), "{said}");
            }
        }
    }
}
