//! A server of devices, on a thread of its own.

use super::bounded::{Bounded, Limits, Served};
use super::credential::{Token, random_token};
use super::files::Files;
use super::{Address, Host, Identity, Kernels, MemoryLimits};
use burn::server::telemetry::TelemetryProbe;
use burn::server::{
    AllowAll, IrohIdentity, IrohRelays, IrohTransport, TokenAuthorizer, Transport,
    WebSocketTransport,
};
use burn_remote::server::BackendServer;
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// How devices are served. Over Iroh unless said otherwise, with a random token.
#[derive(Clone)]
pub struct ServeOptions {
    way: Way,
    token: Option<String>,
    weights: Vec<PathBuf>,
    telemetry: Option<TelemetryProbe>,
    memory: SessionMemory,
}

/// How much of a device's memory a session may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionMemory {
    /// A share of what the device has.
    Share,
    Bytes(u64),
    /// Whatever there is: the sessions are this process's own.
    #[cfg(feature = "npu")]
    All,
}

#[derive(Clone, Debug)]
enum Way {
    Iroh {
        identity: Option<PathBuf>,
        direct: Option<SocketAddr>,
    },
    WebSocket {
        address: SocketAddr,
        open: bool,
    },
}

impl std::fmt::Debug for ServeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never the token.
        f.debug_struct("ServeOptions")
            .field("way", &self.way)
            .field("weights", &self.weights)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

/// Why devices can't be served.
#[derive(thiserror::Error)]
pub enum ServeError {
    /// The address can't be listened on.
    #[error("{address} can't be listened on: {source}; port 0 is a free one")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// Clients dial an address over Iroh, and its port is none.
    #[error("{0} can't be dialled: choose a port above 0 for Iroh")]
    Port(SocketAddr),
    /// The token is empty, or ends as only the numbers of connections do.
    #[error(
        "the token is empty or ends in a zero byte and 16 characters; leave it out, and one is made"
    )]
    Token,
    /// Serving without a token to others than this machine.
    #[error("{0} can be reached from elsewhere; without a token only loopback is served")]
    OpenToOthers(SocketAddr),
    /// A folder of weights is not there, or is no folder.
    #[error("the folder of weights {path} can't be read: {source}")]
    Weights {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file of the server's identity can't be read or made.
    #[error("the identity in {path} can't be read or made: {source}")]
    Identity {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// No thread or no runtime.
    #[error("the server can't be started: {0}")]
    Start(std::io::Error),
    /// What Burn says.
    #[error(transparent)]
    Burn(#[from] burn::server::ServeError),
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self::iroh()
    }
}

impl ServeOptions {
    fn new(way: Way) -> Self {
        Self {
            way,
            token: None,
            weights: Vec::new(),
            telemetry: None,
            memory: SessionMemory::Share,
        }
    }

    /// Over Iroh: encrypted, reached by the server's id from anywhere, through n0's public relays
    /// where there is no direct way. The id is a new one unless there is an
    /// [identity](Self::identity).
    pub fn iroh() -> Self {
        Self::new(Way::Iroh {
            identity: None,
            direct: None,
        })
    }

    /// Over Iroh without relays: clients dial this address, whose port must be given. It is listened on at
    /// every interface.
    pub fn iroh_at(address: impl Into<SocketAddr>) -> Self {
        Self::new(Way::Iroh {
            identity: None,
            direct: Some(address.into()),
        })
    }

    /// Over a WebSocket, unencrypted: for loopback and trusted networks. Port 0 is a free one.
    pub fn websocket(address: impl Into<SocketAddr>) -> Self {
        Self::new(Way::WebSocket {
            address: address.into(),
            open: false,
        })
    }

    /// The Iroh identity in this file, made if it is not there, so that the server's id stays.
    pub fn identity(mut self, path: impl Into<PathBuf>) -> Self {
        if let Way::Iroh { identity, .. } = &mut self.way {
            *identity = Some(path.into());
        }
        self
    }

    /// The token that clients have to present.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Lets in whoever asks, over a WebSocket on loopback only: every program of this machine then
    /// uses the devices. It is for programs that can't present a token.
    pub fn without_token(mut self) -> Self {
        if let Way::WebSocket { open, .. } = &mut self.way {
            *open = true;
        }
        self
    }

    /// A folder whose safetensors files clients may have read; see
    /// [`load_tensor`](super::load_tensor). May be said several times.
    pub fn weights(mut self, folder: impl Into<PathBuf>) -> Self {
        self.weights.push(folder.into());
        self
    }

    /// How many bytes of a device's memory one session may hold: [what the backend
    /// says](MemoryLimits) of its memory, unless said otherwise, which of a processor is half. An operation that would
    /// make it more ends its session with an error that says so. All sessions of a device together hold no more
    /// than the backend says, whatever is said here. Of a processor elsewhere than on Linux nothing is known; only
    /// this limit holds there.
    ///
    /// What a session holds is counted by buffers; messages on their way come on top.
    pub fn max_session_memory(mut self, bytes: u64) -> Self {
        self.memory = SessionMemory::Bytes(bytes);
        self
    }

    /// For a server whose only client is this process.
    #[cfg(feature = "npu")]
    pub(crate) fn without_memory_limit(mut self) -> Self {
        self.memory = SessionMemory::All;
        self
    }

    /// Where sessions report what they run.
    pub fn telemetry(mut self, probe: TelemetryProbe) -> Self {
        self.telemetry = Some(probe);
        self
    }
}

/// A running server. It stops when it is dropped: sessions end, their memory is freed.
#[derive(Debug)]
pub struct Server {
    address: Address,
    token: String,
    devices: Vec<Identity>,
    open: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    finished: Option<oneshot::Receiver<()>>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Server {
    /// Serves devices of one backend, until the server is dropped.
    ///
    /// # Errors
    /// See [`ServeError`]. Over Iroh a port that is taken is told by [`wait`](Self::wait).
    pub fn start<B: Host>(
        devices: impl IntoIterator<Item = B::Device>,
        options: ServeOptions,
    ) -> Result<Self, ServeError> {
        Self::start_with::<B>(devices, options, B::kernels)
    }

    /// The same with these kernels of the backend, in place of all that it has.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with<B: Host>(
        devices: impl IntoIterator<Item = B::Device>,
        options: ServeOptions,
        kernels: impl FnOnce(Kernels<B>) -> Kernels<B>,
    ) -> Result<Self, ServeError> {
        let devices: Vec<B::Device> = devices.into_iter().collect();
        let identities: Vec<_> = devices.iter().map(B::identity).collect();
        let mut server = Self::start_unopened::<B>(devices, options, kernels)?;
        for identity in &identities {
            let address = server.address();
            tracing::info!("{} {} is served at {address}", identity.kind, identity.name);
        }
        server.devices = identities;
        Ok(server)
    }

    /// The same without a look at the devices: each is opened by its first client.
    pub(crate) fn start_unopened<B: Host>(
        devices: Vec<B::Device>,
        options: ServeOptions,
        kernels: impl FnOnce(Kernels<B>) -> Kernels<B>,
    ) -> Result<Self, ServeError> {
        if devices.is_empty() {
            return Err(burn::server::ServeError::NoDevices.into());
        }
        let token = options.token.unwrap_or_else(random_token);
        let (address, transport) = options.way.bind()?;
        let kernels = kernels(Kernels::new());
        let open = Arc::new(AtomicUsize::new(0));
        let files = Files::in_folders(&options.weights)
            .map_err(|(path, source)| ServeError::Weights { path, source })?;
        let devices: Vec<_> = devices
            .into_iter()
            .map(|device| options.memory.of::<B>(device))
            .collect();
        let server = BackendServer::<Bounded<B>>::new(devices)
            .with_custom_ops(kernels.finish(Arc::clone(&open), files));
        let server = match options.way {
            Way::WebSocket { open: true, .. } => server.with_authorizer(AllowAll),
            _ => server.with_authorizer(authorizer(&token)?),
        };
        let server = match options.telemetry {
            Some(probe) => server.with_telemetry(probe),
            None => server,
        };
        let (stop, stopped) = oneshot::channel();
        let (finish, finished) = oneshot::channel();
        let serving = server.serve_async(transport);
        let thread = std::thread::Builder::new()
            .name("burn-kernels-serve".to_owned())
            .spawn(move || {
                let served = run(Box::pin(serving), stopped);
                // Nobody may wait for it.
                let _ = finish.send(());
                served
            })
            .map_err(ServeError::Start)?;
        Ok(Self {
            address,
            token,
            devices: Vec::new(),
            open,
            stop: Some(stop),
            finished: Some(finished),
            thread: Some(thread),
        })
    }

    /// Where clients reach it.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// What clients have to present.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Its devices, in the order in which clients get them.
    pub fn devices(&self) -> &[Identity] {
        &self.devices
    }

    /// How many sessions of clients of this crate are open: one for each device that a
    /// [`connect`](super::connect) gave.
    pub fn sessions(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Serves until Ctrl+C or `SIGTERM`, then stops.
    ///
    /// # Errors
    /// The server failed, or signals can't be waited for.
    pub fn wait(mut self) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ServeError::Start)?;
        let finished = self.finished.take();
        runtime
            .block_on(async {
                tokio::select! {
                    stopped = signal() => stopped,
                    () = async { if let Some(finished) = finished { let _ = finished.await; } } => Ok(()),
                }
            })
            .map_err(ServeError::Start)?;
        self.end()
    }

    /// Stops and says how serving went.
    ///
    /// # Errors
    /// The server failed while it ran.
    pub fn stop(mut self) -> Result<(), ServeError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ServeError> {
        if let Some(stop) = self.stop.take() {
            // It may have stopped by itself.
            let _ = stop.send(());
        }
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(served)) => served,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take()
            && let Ok(Err(error)) = thread.join()
        {
            tracing::error!("the server at {} failed: {error}", self.address);
        }
    }
}

/// As [`Server::start`] and [`Server::wait`]: serves until Ctrl+C or `SIGTERM`.
///
/// # Errors
/// See [`ServeError`].
pub fn serve<B: Host>(
    devices: impl IntoIterator<Item = B::Device>,
    options: ServeOptions,
) -> Result<(), ServeError> {
    Server::start::<B>(devices, options)?.wait()
}

impl SessionMemory {
    /// The device with its limits.
    fn of<B: Host>(self, device: B::Device) -> Served<B::Device> {
        let memory = match self {
            #[cfg(feature = "npu")]
            Self::All => None,
            Self::Share | Self::Bytes(_) => B::memory(&device),
        };
        // More than anything has, where that is not known.
        let (session, all) = (usize::MAX, usize::MAX);
        let MemoryLimits { session, all } = memory.unwrap_or(MemoryLimits { session, all });
        let session = match self {
            Self::Bytes(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
            _ => session,
        };
        Served::new(device, Limits::new(session, all))
    }
}

impl Way {
    /// The address that clients dial, and the transport. A WebSocket's port is taken here.
    fn bind(&self) -> Result<(Address, Transport), ServeError> {
        match self {
            Self::WebSocket { address, open } => {
                if *open && !address.ip().is_loopback() {
                    return Err(ServeError::OpenToOthers(*address));
                }
                let fail = |source| ServeError::Listen {
                    address: *address,
                    source,
                };
                let listener = TcpListener::bind(address).map_err(fail)?;
                let host = listener.local_addr().map_err(fail)?.to_string();
                let transport = WebSocketTransport::from_listener(listener);
                Ok((Address::WebSocket { host }, transport.into()))
            }
            Self::Iroh { identity, direct } => {
                if let Some(address) = direct.filter(|address| address.port() == 0) {
                    return Err(ServeError::Port(address));
                }
                let identity = match identity {
                    None => IrohIdentity::random(),
                    Some(path) => IrohIdentity::load_or_create(path).map_err(|source| {
                        ServeError::Identity {
                            path: path.clone(),
                            source,
                        }
                    })?,
                };
                let id = identity.id();
                let transport = IrohTransport::new(identity);
                let transport = match direct {
                    None => transport,
                    Some(address) => transport
                        .with_relays(IrohRelays::Disabled)
                        .with_port(address.port()),
                };
                let direct = *direct;
                Ok((Address::Iroh { id, direct }, transport.into()))
            }
        }
    }
}

fn authorizer(token: &str) -> Result<Token, ServeError> {
    if super::credential::is_ambiguous(token) {
        return Err(ServeError::Token);
    }
    let token = TokenAuthorizer::new(token).map_err(|_| ServeError::Token)?;
    Ok(Token(token))
}

type Serving = Pin<Box<dyn Future<Output = Result<(), burn::server::ServeError>> + Send>>;

/// Serves until told to stop, on a runtime that ends with it.
fn run(serving: Serving, stopped: oneshot::Receiver<()>) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("burn-kernels-io")
        .enable_all()
        .build()
        .map_err(ServeError::Start)?;
    let served = runtime.block_on(async {
        tokio::select! {
            served = serving => served.map_err(ServeError::from),
            // An error means that the handle is gone, which stops the server too.
            _ = stopped => Ok(()),
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(2));
    served
}

/// Waits for Ctrl+C or, on Unix, `SIGTERM`.
async fn signal() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        let kind = tokio::signal::unix::SignalKind::terminate();
        let mut terminate = tokio::signal::unix::signal(kind)?;
        tokio::select! {
            pressed = tokio::signal::ctrl_c() => pressed,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}
