//! The Iroh endpoint from which this program connects, and the settings of every endpoint.
//!
//! By default, Burn binds one with a new id for each process. A server that lists endpoints needs one with a permanent
//! id.

use burn::remote::EndpointId;
use burn::server::IrohIdentity;
use iroh::endpoint::{Builder, QuicTransportConfig, presets};
use iroh::{Endpoint, RelayMode, SecretKey};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use tokio::runtime::Runtime;

struct Client {
    identity: IrohIdentity,
    bound: Option<Bound>,
}

struct Bound {
    endpoint: Endpoint,
    has_relays: bool,
    // The runtime of the endpoint's tasks.
    _runtime: Runtime,
}

static CLIENT: Mutex<Option<Client>> = Mutex::new(None);

/// Connects over Iroh with the identity in this file from now on. The file is created if it does not exist. Returns the
/// id, which servers list with `ServeOptions::allow_endpoint`.
///
/// Without this call, every process has a new id. A process has only one identity. With it, the process reaches servers
/// either through relays or directly at their addresses. The first connection decides which.
///
/// # Errors
/// Returns an error if the file can't be read or created, or if the process already has another identity.
pub fn client_identity(path: impl AsRef<Path>) -> Result<EndpointId> {
    let identity = IrohIdentity::load_or_create(path)?;
    let id = identity.id();
    let mut client = CLIENT.lock().unwrap_or_else(PoisonError::into_inner);
    match &*client {
        Some(known) if known.identity.id() != id => {
            let known = known.identity.id();
            let said = format!("this program connects as {known} already");
            Err(Error::new(ErrorKind::AlreadyExists, said))
        }
        Some(_) => Ok(id),
        None => {
            *client = Some(Client {
                identity,
                bound: None,
            });
            Ok(id)
        }
    }
}

/// Returns the endpoint to connect from, or `None` if Burn should bind one.
pub(super) fn endpoint(has_relays: bool) -> Result<Option<Endpoint>> {
    let mut client = CLIENT.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(client) = &mut *client else {
        return Ok(None);
    };
    if client.bound.is_none() {
        client.bound = Some(bind(&client.identity, has_relays)?);
    }
    let bound = client
        .bound
        .as_ref()
        .filter(|bound| bound.has_relays == has_relays);
    let bound = bound.ok_or_else(|| {
        Error::other(
            "with an identity of its own (`client_identity`), a program reaches servers either through \
             relays, as `iroh://ID`, or at their addresses, as `iroh://ID@HOST:PORT`: it began with the other",
        )
    })?;
    Ok(Some(bound.endpoint.clone()))
}

fn bind(identity: &IrohIdentity, has_relays: bool) -> Result<Bound> {
    // Burn waits for it on its own threads.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("burn-kernels-iroh")
        .enable_all()
        .build()?;
    let from = match has_relays {
        true => Endpoint::builder(presets::N0),
        false => Endpoint::builder(presets::Minimal).relay_mode(RelayMode::Disabled),
    };
    let bound = runtime.block_on(builder(from, identity).bind());
    Ok(Bound {
        endpoint: bound.map_err(Error::other)?,
        has_relays,
        _runtime: runtime,
    })
}

/// Applies the settings of every endpoint.
pub fn builder(from: Builder, identity: &IrohIdentity) -> Builder {
    let offload = burn::runtime_config().remote().iroh_segmentation_offload;
    let transport = QuicTransportConfig::builder().enable_segmentation_offload(offload);
    from.secret_key(SecretKey::from_bytes(&identity.to_bytes()))
        .transport_config(transport.build())
}
