//! Iroh: serving, with Burn's handler of the protocol behind a gate, and who connects.

mod client;
mod gate;

use super::ServeError;
use super::limits::Limits;
use burn::remote::EndpointId;
use burn::server::IrohIdentity;
use burn_remote::BURN_REMOTE_ALPN;
use burn_remote::server::RemoteProtocol;
pub use client::client_identity;
pub(super) use client::endpoint;
use gate::Gate;
pub(super) use gate::{Known, Rules};
use iroh::endpoint::{BindOpts, Builder, QuicTransportConfig, presets};
use iroh::protocol::Router;
use iroh::{Endpoint, RelayMode, SecretKey};
use std::net::SocketAddr;
use std::sync::Arc;

/// An endpoint with this identity: through n0's public relays, or at an address alone. A loopback address
/// is listened on as it is, any other at every interface, since clients may dial another than the machine has.
pub(super) async fn bind(
    identity: &IrohIdentity,
    direct: Option<SocketAddr>,
) -> Result<Endpoint, ServeError> {
    let failed = |error: &dyn std::fmt::Display| ServeError::Iroh(error.to_string());
    let from = match direct {
        None => Endpoint::builder(presets::N0),
        Some(address) => at(address).map_err(|error| failed(&error))?,
    };
    let builder = builder(from, identity).alpns(vec![BURN_REMOTE_ALPN.to_vec()]);
    builder.bind().await.map_err(|error| failed(&error))
}

/// Applies the settings of every endpoint.
fn builder(from: Builder, identity: &IrohIdentity) -> Builder {
    let offload = burn::runtime_config().remote().iroh_segmentation_offload;
    let transport = QuicTransportConfig::builder().enable_segmentation_offload(offload);
    from.secret_key(SecretKey::from_bytes(&identity.to_bytes()))
        .transport_config(transport.build())
}

fn at(address: SocketAddr) -> Result<Builder, iroh::endpoint::InvalidSocketAddr> {
    let builder = Endpoint::builder(presets::Minimal)
        .relay_mode(RelayMode::Disabled)
        .clear_ip_transports();
    if address.ip().is_loopback() {
        return builder.bind_addr(address);
    }
    let port = address.port();
    // A machine without IPv6 still serves.
    let optional = BindOpts::default().set_is_required(false);
    builder
        .bind_addr(format!("0.0.0.0:{port}"))?
        .bind_addr_with_opts(format!("[::]:{port}"), optional)
}

/// Serves until the endpoint closes or the future is dropped.
pub(super) async fn serve(
    endpoint: Endpoint,
    protocol: RemoteProtocol,
    rules: Rules,
    limits: Limits,
    known: Arc<Known>,
) -> Result<(), ServeError> {
    let closed = endpoint.closed();
    let gate = Gate::new(protocol.into(), rules, limits, known);
    let router = Router::builder(endpoint).accept(BURN_REMOTE_ALPN, gate);
    let _router = ShutDown(Some(router.spawn()));
    closed.await;
    Err(ServeError::Iroh(
        "its endpoint closed while it served".to_owned(),
    ))
}

/// A router that closes its connections when it is dropped, so that clients learn of it at once.
struct ShutDown(Option<Router>);

impl Drop for ShutDown {
    fn drop(&mut self) {
        if let Some(router) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                if let Err(error) = router.shutdown().await {
                    tracing::warn!("Iroh's router ended by itself: {error}");
                }
            });
        }
    }
}

/// Whether an endpoint is in a list; an empty list means everybody.
fn is_listed(list: &[EndpointId], id: EndpointId) -> bool {
    list.is_empty() || list.contains(&id)
}
