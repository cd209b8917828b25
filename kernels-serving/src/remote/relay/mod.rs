//! The relay between a WebSocket's port and Burn's server.
//!
//! Burn reads messages of up to 1 GiB from every connection before it asks for the credential. The relay therefore
//! accepts the connections. It reads at most 64 KiB, within a time limit, until it has seen the token. Only then does
//! it connect to Burn, which lets in no other program ([`upstream`]). From then on, it passes the bytes unchanged in both
//! directions and checks the headers of the client's frames.

mod frames;
mod handshake;
mod session;
mod unauthenticated;
mod upstream;
mod values;
mod waiting;

pub(super) use waiting::{Place, Waiting};

use super::Limits;
use burn::server::PeerAuthorizer;
use std::io::Result;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use unauthenticated::Offer;
use upstream::Upstream;

/// The maximum number of other servers that fetch tensors. They keep their connection as long as they run.
const TRANSFERS: usize = 32;

/// The relay, with its connection to Burn's server and its authorizer.
pub(super) struct Relay {
    upstream: Upstream,
    offer: Offer,
    limits: Limits,
    authorizer: Box<dyn PeerAuthorizer>,
    waiting: Arc<Waiting<IpAddr>>,
    sessions: Arc<Semaphore>,
    transfers: Arc<Semaphore>,
}

impl Relay {
    /// Creates a relay, and the listener for Burn's server.
    pub(super) fn new(
        limits: Limits,
        authorizer: Box<dyn PeerAuthorizer>,
        origins: Vec<String>,
        transfers: bool,
    ) -> Result<(Self, TcpListener)> {
        let (upstream, listener) = Upstream::new()?;
        let relay = Self {
            upstream,
            offer: Offer { origins, transfers },
            limits,
            authorizer,
            waiting: Waiting::new(limits.waiting),
            sessions: Arc::new(Semaphore::new(limits.connections)),
            transfers: Arc::new(Semaphore::new(TRANSFERS)),
        };
        Ok((relay, listener))
    }

    /// Returns the secret that Burn's server must ask for. Only the relay knows it.
    pub(super) fn secret(&self) -> &str {
        self.upstream.secret()
    }

    /// Accepts connections until the future is dropped, which ends them.
    pub(super) async fn serve(self, listener: TcpListener) -> Result<()> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let relay = Arc::new(self);
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(ended) = connections.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!("a connection ended by itself: {error}");
                    }
                    continue;
                }
            };
            match accepted {
                Ok((socket, address)) => {
                    // The place is taken here and not in the task, so that the line also limits the number of tasks.
                    let place = relay.waiting.enter(address.ip());
                    connections.spawn(Arc::clone(&relay).connection(socket, address, place));
                }
                Err(error) => {
                    // Without free descriptors, the next attempt would fail at once.
                    tracing::warn!("no connection can be taken: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn connection(
        self: Arc<Self>,
        socket: TcpStream,
        address: SocketAddr,
        mut place: Place<IpAddr>,
    ) {
        if let Err(error) = prepare(&socket) {
            tracing::debug!("the connection of {address} can't be set up: {error}");
            return;
        }
        let admitted = tokio::select! {
            admitted = tokio::time::timeout(self.limits.handshake, self.admit(socket, address)) => admitted,
            () = place.lost() => {
                tracing::debug!("{address} was closed without a token: too many wait");
                return;
            }
        };
        drop(place);
        let admitted = match admitted {
            Ok(Ok(admitted)) => admitted,
            Ok(Err(turned)) => {
                tracing::debug!("nothing came of the connection of {address}: {turned}");
                return;
            }
            Err(_) => {
                tracing::debug!(
                    "{address} was closed: no token in {:?}",
                    self.limits.handshake
                );
                return;
            }
        };
        if let Err(ended) = admitted.relay(&self.upstream).await {
            tracing::warn!("the session of {address} was closed: {ended}");
        }
    }
}

/// Sets the detection of dead peers as Burn does: after 10 s of silence, with 4 probes.
fn prepare(socket: &TcpStream) -> Result<()> {
    socket.set_nodelay(true)?;
    let keepalive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(10));
    // On other systems, the defaults apply to the rest.
    #[cfg(any(target_os = "linux", target_os = "macos", target_os = "windows"))]
    let keepalive = keepalive
        .with_interval(Duration::from_secs(5))
        .with_retries(4);
    socket2::SockRef::from(socket).set_tcp_keepalive(&keepalive)
}
