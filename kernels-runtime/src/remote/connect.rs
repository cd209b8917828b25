//! The connection of a program to the devices of a server.

use super::credential::{credential, unique};
use super::declaration::{Declaration, RELEASE};
use super::devices::{self, RemoteDevice};
use super::offer;
use super::wire::SCHEMA;
use super::{Address, InvalidAddress};
use burn::remote::RemoteHost;
use burn::tensor::{Device, ExecutionError};
use std::collections::BTreeSet;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The reason why a server's devices are not available.
#[derive(thiserror::Error)]
pub enum ConnectError {
    /// The text is not an address.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// The token is empty or wrong.
    #[error("{address} refuses the token; `kernels serve` prints it when it starts")]
    Refused {
        /// The server's address.
        address: Address,
    },
    /// The server has reached its limit of connections.
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
    /// This program's own Iroh endpoint is not available; see [`client_identity`](super::client_identity).
    #[error("{address} can't be reached from an endpoint of this program: {source}")]
    Endpoint {
        /// The server's address.
        address: Address,
        /// The cause.
        source: std::io::Error,
    },
    /// Nothing answers at the address.
    #[error("{address} can't be reached: {reason}")]
    Unreachable {
        /// The server's address.
        address: Address,
        /// The error.
        reason: String,
    },
    /// The server speaks another version of Burn's protocol.
    #[error("{address} and this program use different releases of Burn: {reason}")]
    Protocol {
        /// The server's address.
        address: Address,
        /// The versions.
        reason: String,
    },
    /// The other side serves devices, but without this crate's kernels.
    #[error(
        "{address} is not a server of burn-kernels, or its device fails, which its log tells; start it with `kernels serve`, or reach its devices with Burn's `Device::remote_options`"
    )]
    NotOurs {
        /// The server's address.
        address: Address,
    },
    /// The device can't describe itself, because it was lost or its memory is full.
    #[error("device {index} of {address} fails: {reason}")]
    Device {
        /// The server's address.
        address: Address,
        /// The index of the device in the server's list.
        index: usize,
        /// The known facts about the problem.
        reason: String,
    },
    /// The server is of another release, so it may compute other results than the client.
    #[error(
        "{address} is burn-kernels {server}, this program {client}; use one release on both sides"
    )]
    Release {
        /// The server's address.
        address: Address,
        /// The server's release.
        server: String,
        /// This program's release.
        client: String,
    },
    /// Any other error of Burn.
    #[error("{address}: {source}")]
    Other {
        /// The server's address.
        address: Address,
        /// Burn's own error.
        source: burn::remote::ConnectError,
    },
}

/// The time in which a server must answer a new session. Devices may have to start.
const PATIENCE: Duration = Duration::from_secs(120);

/// The sessions that this process opened on servers of its own.
static OWN: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// Returns `true` if this process serves the device of a tensor itself.
#[cfg(all(feature = "packages", feature = "npu"))]
pub(crate) fn is_own(tensor: &burn::backend::DispatchTensor) -> bool {
    let own = || OWN.lock().unwrap_or_else(PoisonError::into_inner);
    devices::session(tensor).is_some_and(|session| own().contains(&session))
}

/// Connects to the devices of a server and returns them in the server's order. They are ordinary Burn devices.
///
/// Every call opens new sessions, which share nothing with devices from earlier calls. A process can have 65,536
/// sessions, and none is released before the process ends.
///
/// # Errors
/// Returns an error as described by [`ConnectError`]. A server that has just been started is given some 16 seconds to
/// listen, and one that listens 120 seconds to answer.
pub fn connect(
    address: impl TryInto<Address, Error: Into<InvalidAddress>>,
    token: &str,
) -> Result<Vec<Device>, ConnectError> {
    let address = address.try_into().map_err(Into::into)?;
    let host = host(&address, token)?;
    // The handshake of the first device returns the number of devices.
    let asked = host.clone();
    let count = answered(&address, PATIENCE, move || {
        asked.devices().map(|devices| devices.len())
    })?;
    let party = unique();
    let devices = (0..count).map(|index| device(&address, &host, (index, party), token));
    devices.collect()
}

/// Connects to one of a server's devices. The others are not asked anything. It reduces tensors together with devices of
/// the same party.
pub fn connect_to(
    address: &Address,
    token: &str,
    (index, party): (usize, u64),
) -> Result<Device, ConnectError> {
    let host = host(address, token)?;
    device(address, &host, (index, party), token)
}

/// Returns the server in Burn's form, for sessions of its own.
fn host(address: &Address, token: &str) -> Result<RemoteHost, ConnectError> {
    let host = address.host(credential(token.as_bytes(), unique()));
    host.map_err(|source| ConnectError::Endpoint {
        address: address.clone(),
        source,
    })
}

/// Returns the answer of a server. Burn itself would wait for ever, also for a program that accepts every connection
/// and sends nothing.
fn answered<T: Send + 'static>(
    address: &Address,
    patience: Duration,
    ask: impl FnOnce() -> Result<T, burn::remote::ConnectError> + Send + 'static,
) -> Result<T, ConnectError> {
    let out_of_reach = |reason: String| ConnectError::Unreachable {
        address: address.clone(),
        reason,
    };
    let (sender, receiver) = mpsc::channel();
    // Without an answer, the thread stays until the process ends.
    let thread = std::thread::Builder::new().spawn(move || sender.send(ask()));
    thread.map_err(|error| out_of_reach(error.to_string()))?;
    match receiver.recv_timeout(patience) {
        Ok(answer) => answer.map_err(|error| explain(address, error)),
        Err(RecvTimeoutError::Timeout) => Err(out_of_reach(format!(
            "it gave no answer for {} s; a firewall may drop the connection, another program may listen there, or the \
             server is stopped",
            patience.as_secs()
        ))),
        Err(RecvTimeoutError::Disconnected) => {
            Err(out_of_reach("the connection ended in a panic".to_owned()))
        }
    }
}

fn device(
    address: &Address,
    host: &RemoteHost,
    (index, party): (usize, u64),
    token: &str,
) -> Result<Device, ConnectError> {
    let options = Device::remote_options(host).device_index(index);
    let device = answered(address, PATIENCE, move || options.init())?;
    let not_ours = || ConnectError::NotOurs {
        address: address.clone(),
    };
    let handle = devices::handle(&device).ok_or_else(not_ours)?;
    let session = unique();
    let declared = offer::declaration(&handle, session, party).map_err(|failed| match failed {
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

/// Returns an error unless server and client are of one release. Otherwise they may compute different results or not
/// understand each other.
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

/// The answer of a full server's relay, in Burn's words.
const FULL: &str = "503 Service Unavailable";

/// Returns `true` if Burn reports an Iroh connection that the gate closed. The words depend on how far the connection
/// was.
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

/// The message for a session that ended without a failed operation.
const CLOSED: &str = "no operation failed, and the session is closed: its server stopped or can't be reached, \
     or a tensor of 1 GiB or more was to cross the connection, which Burn does not send, or one that is larger \
     than the server takes (`--max-message`): move it in slices";

/// Returns the reason why the session of a device failed: the message of the last panic on the server, or the error of
/// its unfinished work. Returns `None` if the session continues, and for devices that [`connect`] did not return. The
/// call waits for unfinished work.
///
/// Burn tells a client that its session ended, but not the reason. A server outside this process is asked in a new
/// session. If it is gone, this takes as long as [`connect`] does.
pub fn failure(device: &Device) -> Option<String> {
    let remote = devices::entry(device)?;
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_own = own.contains(&remote.session);
    drop(own);
    // A server of this process need not be asked, and it may be gone.
    let ending = || super::sessions::ending(remote.session);
    ending().or_else(|| match device.sync() {
        Ok(()) => None,
        Err(ExecutionError::WithContext { reason }) => Some(reason),
        // An operation may have failed since, and its session keeps the reason before it ends.
        Err(_) if is_own => Some(ending().unwrap_or_else(|| CLOSED.to_owned())),
        Err(_) => Some(ask_why(&remote).unwrap_or_else(|| CLOSED.to_owned())),
    })
}

fn ask_why(remote: &RemoteDevice) -> Option<String> {
    let host = remote.address.host(credential(&remote.token, unique()));
    let host = host.ok()?;
    let options = Device::remote_options(&host).device_index(remote.index);
    let device = answered(&remote.address, PATIENCE, move || options.init()).ok()?;
    let handle = devices::handle(&device)?;
    offer::failure(&handle, remote.session)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceKind;
    use crate::remote::Identity;

    #[test]
    fn a_server_that_says_nothing_is_an_error() {
        let address: Address = "ws://127.0.0.1:1".parse().unwrap();
        let (hold, held) = mpsc::channel::<()>();
        let said = answered(&address, Duration::from_millis(20), move || {
            held.recv().ok();
            Ok(())
        });
        let said = said.unwrap_err().to_string();
        assert!(said.contains("gave no answer"), "{said}");
        drop(hold);
        let said = answered(&address, PATIENCE, || {
            Err::<(), _>(burn::remote::ConnectError::Unauthorized)
        });
        assert!(matches!(said, Err(ConnectError::Refused { .. })));
        let answer = answered(&address, PATIENCE, || Ok(3));
        assert_eq!(answer.unwrap(), 3);
    }

    #[test]
    fn another_release_and_another_schema_are_refused() {
        let address: Address = "ws://127.0.0.1:1".parse().unwrap();
        let identity = Identity {
            kind: DeviceKind::Cpu,
            capability: 0,
            f64: false,
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
