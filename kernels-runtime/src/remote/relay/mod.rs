//! The relay between a WebSocket's port and Burn's server.
//!
//! Burn reads messages of up to 1 GiB from whoever connects, and asks for the credential then. So the
//! relay takes the connections: it reads 64 KiB at most, within a time limit, until it has seen the
//! token, and only then connects to Burn, which lets in nobody else ([`door`]). From there on it
//! passes the bytes as they are, in both directions, and looks at the headers of the client's frames.

mod door;
mod frames;
mod handshake;
mod session;
mod stranger;
mod waiting;

pub(super) use waiting::{Place, Waiting};

use super::Limits;
use burn::server::PeerAuthorizer;
use door::Door;
use std::io::Result;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use stranger::Offer;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Other servers that fetch tensors. They hold their connection as long as they live.
const TRANSFERS: usize = 32;

/// A door to Burn's server with its doorkeeper.
pub(super) struct Relay {
    door: Door,
    offer: Offer,
    limits: Limits,
    authorizer: Box<dyn PeerAuthorizer>,
    waiting: Arc<Waiting<IpAddr>>,
    sessions: Arc<Semaphore>,
    transfers: Arc<Semaphore>,
}

impl Relay {
    /// A relay, and the listener for Burn's server.
    pub(super) fn new(
        limits: Limits,
        authorizer: Box<dyn PeerAuthorizer>,
        origins: Vec<String>,
        transfers: bool,
    ) -> Result<(Self, TcpListener)> {
        let (door, listener) = Door::new()?;
        let relay = Self {
            door,
            offer: Offer { origins, transfers },
            limits,
            authorizer,
            waiting: Waiting::new(limits.waiting),
            sessions: Arc::new(Semaphore::new(limits.connections)),
            transfers: Arc::new(Semaphore::new(TRANSFERS)),
        };
        Ok((relay, listener))
    }

    /// The secret that Burn's server must ask for: only the relay knows it.
    pub(super) fn secret(&self) -> &str {
        self.door.secret()
    }

    /// Takes connections until the future is dropped, which ends them.
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
                    // Here, not in the task: the line bounds the tasks too.
                    let place = relay.waiting.enter(address.ip());
                    connections.spawn(Arc::clone(&relay).connection(socket, address, place));
                }
                Err(error) => {
                    // Without free descriptors it would fail again at once.
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
        if let Err(ended) = admitted.relay(&self.door).await {
            tracing::warn!("the session of {address} was closed: {ended}");
        }
    }
}

/// Dead peers are noticed as Burn notices them: after 10 s without a word, by 4 probes.
fn prepare(socket: &TcpStream) -> Result<()> {
    socket.set_nodelay(true)?;
    let keepalive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(10));
    // Elsewhere the rest is the system's.
    #[cfg(any(target_os = "linux", target_os = "macos", target_os = "windows"))]
    let keepalive = keepalive
        .with_interval(Duration::from_secs(5))
        .with_retries(4);
    socket2::SockRef::from(socket).set_tcp_keepalive(&keepalive)
}
