//! Serving over Iroh, with Burn's handler of the protocol behind a gate.

mod gate;

use super::ServeError;
use super::limits::Limits;
use burn::remote::EndpointId;
use burn::server::IrohIdentity;
use burn_remote::BURN_REMOTE_ALPN;
use burn_remote::server::RemoteProtocol;
use gate::Gate;
pub(super) use gate::{Known, Rules};
use iroh::endpoint::{BindOpts, Builder, presets};
use iroh::protocol::Router;
use iroh::{Endpoint, RelayMode};
use kernels_runtime::__serving::builder;
use std::net::SocketAddr;
use std::sync::Arc;

/// Binds an endpoint with this identity, either with n0's public relays or at one address. A loopback address is bound
/// as it is. For any other address, every interface is bound, because clients may dial an address that the machine
/// itself does not have.
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

fn at(address: SocketAddr) -> Result<Builder, iroh::endpoint::InvalidSocketAddr> {
    let builder = Endpoint::builder(presets::Minimal)
        .relay_mode(RelayMode::Disabled)
        .clear_ip_transports();
    if address.ip().is_loopback() {
        return builder.bind_addr(address);
    }
    let port = address.port();
    // A machine without IPv6 can still serve.
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

/// A router that closes its connections when it is dropped, so that clients notice at once.
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

/// Returns `true` if an endpoint is in a list. An empty list contains all endpoints.
fn is_listed(list: &[EndpointId], id: EndpointId) -> bool {
    list.is_empty() || list.contains(&id)
}
