//! A server of devices, on its own thread.

use super::answers;
use super::bounded::Bounded;
use super::credential::random_token;
use super::files::Files;
use super::iroh::{self, Known, Rules};
use super::options::Binding;
use super::relay::Relay;
use super::{Address, Host, Identity, Kernels, ServeError, ServeOptions};
use burn::server::{
    AuthorizationRequest, ClientId, PeerAuthorizer, TokenAuthorizer, WebSocketTransport,
};
use burn_remote::server::BackendServer;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The maximum time that a stopping server waits for its sessions. A session that computes for longer continues without
/// it.
const SESSIONS_END: Duration = Duration::from_secs(2);

/// A running server. It stops when it is dropped: sessions end, and their memory is freed.
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
    /// Serves devices of one backend until the server is dropped.
    ///
    /// # Errors
    /// Returns an error as described by [`ServeError`]. Over Iroh, a port that is in use is reported by
    /// [`wait`](Self::wait).
    pub fn start<B: Host>(
        devices: impl IntoIterator<Item = B::Device>,
        options: ServeOptions,
    ) -> Result<Self, ServeError> {
        Self::start_with::<B>(devices, options, B::kernels)
    }

    /// Serves as [`start`](Self::start) does, with only these kernels of the backend.
    ///
    /// # Errors
    /// Returns an error as [`start`](Self::start) does.
    pub fn start_with<B: Host>(
        devices: impl IntoIterator<Item = B::Device>,
        options: ServeOptions,
        kernels: impl FnOnce(Kernels<B>) -> Kernels<B>,
    ) -> Result<Self, ServeError> {
        let devices: Vec<B::Device> = devices.into_iter().collect();
        let identities: Vec<_> = devices.iter().map(B::identity).collect();
        let mut server = B::start(devices, options, kernels(Kernels::new()))?;
        for identity in &identities {
            let address = server.address();
            tracing::info!("{} {} is served at {address}", identity.kind, identity.name);
        }
        server.devices = identities;
        Ok(server)
    }

    /// Serves as [`start_with`](Self::start_with) does, without opening the devices. Each is opened by its first
    /// client.
    pub(crate) fn start_unopened<B: Host>(
        devices: Vec<B::Device>,
        options: ServeOptions,
        kernels: Kernels<B>,
    ) -> Result<Self, ServeError> {
        if devices.is_empty() {
            return Err(burn::server::ServeError::NoDevices.into());
        }
        options.check()?;
        let token = options.token.clone().unwrap_or_else(random_token);
        let authorizer = options.authorizer(&token)?;
        let (address, binding) = options.way.binding()?;
        let open = Arc::new(AtomicUsize::new(0));
        let files = Files::in_folders(&options.weights)
            .map_err(|(path, source)| ServeError::Weights { path, source })?;
        let devices: Vec<_> = devices
            .into_iter()
            .map(|device| options.memory.of::<B>(device))
            .collect();
        let server = BackendServer::<Bounded<B>>::new(devices).with_custom_ops(answers::registry(
            kernels,
            Arc::clone(&open),
            files,
        ));
        let server = match options.telemetry.clone() {
            Some(probe) => server.with_telemetry(probe),
            None => server,
        };
        let (stop, stopped) = oneshot::channel();
        let (finish, finished) = oneshot::channel();
        let serving = serving(server, binding, authorizer, options)?;
        let thread = std::thread::Builder::new()
            .name("burn-kernels-serve".to_owned())
            .spawn(move || {
                let served = run(serving, stopped);
                // It is possible that no thread waits for this.
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

    /// Returns the address where clients connect.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the token that clients have to present.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns the devices, in the order in which clients receive them.
    pub fn devices(&self) -> &[Identity] {
        &self.devices
    }

    /// Returns the number of open sessions of clients of this crate: one for each device that a
    /// [`connect`](super::connect) returned.
    pub fn sessions(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Serves until Ctrl+C or `SIGTERM`, then stops.
    ///
    /// # Errors
    /// Returns an error if the server failed, or if signals can't be waited for.
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

    /// Stops the server and returns the result of serving.
    ///
    /// # Errors
    /// Returns an error if the server failed while it ran.
    pub fn stop(mut self) -> Result<(), ServeError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ServeError> {
        if let Some(stop) = self.stop.take() {
            // The server may have stopped by itself.
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
        // The threads of the sessions end a moment later, and use the devices until then.
        let begun = Instant::now();
        while self.sessions() > 0 && begun.elapsed() < SESSIONS_END {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Serves devices of one backend until Ctrl+C or `SIGTERM`, as [`Server::start`] and [`Server::wait`] do.
///
/// # Errors
/// Returns an error as described by [`ServeError`].
pub fn serve<B: Host>(
    devices: impl IntoIterator<Item = B::Device>,
    options: ServeOptions,
) -> Result<(), ServeError> {
    Server::start::<B>(devices, options)?.wait()
}

type Serving = Pin<Box<dyn Future<Output = Result<(), ServeError>> + Send>>;

/// Returns the work of the server's thread: Burn's server, and the relay or gate before it.
fn serving<B: Host>(
    server: BackendServer<Bounded<B>>,
    binding: Binding,
    authorizer: Box<dyn PeerAuthorizer>,
    options: ServeOptions,
) -> Result<Serving, ServeError> {
    let (limits, transfers) = (options.limits, options.transfers);
    match binding {
        Binding::Port(listener) => {
            let relay = Relay::new(limits, authorizer, options.origins, transfers);
            let (relay, behind) = relay.map_err(ServeError::Start)?;
            let secret = TokenAuthorizer::new(relay.secret()).expect("it is not empty");
            let server = server.with_authorizer(secret);
            let burn = server.serve_async(WebSocketTransport::from_listener(behind));
            Ok(Box::pin(async move {
                tokio::select! {
                    served = burn => served.map_err(ServeError::from),
                    served = relay.serve(listener) => served.map_err(ServeError::Start),
                }
            }))
        }
        Binding::Endpoint { identity, direct } => {
            let rules = Rules {
                endpoints: options.endpoints,
                transfers,
            };
            let known = Arc::new(Known::default());
            let seen = Arc::clone(&known);
            let server = server.with_authorizer(move |request: AuthorizationRequest<'_>| {
                let client = request.client;
                authorizer.authorize(request)?;
                if let ClientId::Iroh(id) = client {
                    seen.has_token(id);
                }
                Ok(())
            });
            Ok(Box::pin(async move {
                let endpoint = iroh::bind(&identity, direct).await?;
                let protocol = server.into_protocol(&endpoint)?;
                iroh::serve(endpoint, protocol, rules, limits, known).await
            }))
        }
    }
}

/// Serves until stopped, on a runtime that ends with the server.
fn run(serving: Serving, stopped: oneshot::Receiver<()>) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("burn-kernels-io")
        .enable_all()
        .build()
        .map_err(ServeError::Start)?;
    let served = runtime.block_on(async {
        tokio::select! {
            served = serving => served,
            // An error means that the handle was dropped, which also stops the server.
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
