//! The options of a server.

use super::limits::Limits;
use super::session_memory::SessionMemory;
use super::{Address, ServeError, credential};
use burn::remote::EndpointId;
use burn::server::telemetry::TelemetryProbe;
use burn::server::{AllowAll, IrohIdentity, PeerAuthorizer, TokenAuthorizer};
use kernels_runtime::__private::warn;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

/// The options of a server. The default is Iroh with a random token.
///
/// The token lets a client use the devices. It does not isolate clients that have it from each other. Give it only to
/// clients that may see each other's work, and start a server for each group of them. An operation that is refused ends
/// only its own session, but Burn's server allows more:
///
/// * Tensors in transit between sessions are named by a counter. Another session can guess it and take them.
/// * A session that waits for a tensor that never arrives stays, with its memory, until the server ends.
/// * Tensors that were exposed to other servers and not fetched stay until the server ends. No limit counts them.
/// * No limit counts answers that a client does not read, messages while they are decoded (up to some 35 times their
///   size), handles of tensors, and recorded graphs.
/// * All sessions of a processor share one random generator, which each of them can seed.
#[derive(Clone)]
pub struct ServeOptions {
    pub(super) way: Way,
    pub(super) token: Option<String>,
    pub(super) weights: Vec<PathBuf>,
    pub(super) telemetry: Option<TelemetryProbe>,
    pub(super) limits: Limits,
    pub(super) origins: Vec<String>,
    pub(super) endpoints: Vec<EndpointId>,
    pub(super) transfers: bool,
    pub(super) memory: SessionMemory,
}

#[derive(Clone, Debug)]
pub(super) enum Way {
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
        // The token is never shown.
        f.debug_struct("ServeOptions")
            .field("way", &self.way)
            .field("weights", &self.weights)
            .field("limits", &self.limits)
            .field("origins", &self.origins)
            .field("endpoints", &self.endpoints)
            .field("transfers", &self.transfers)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
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
            limits: Limits::default(),
            origins: Vec::new(),
            endpoints: Vec::new(),
            transfers: false,
            memory: SessionMemory::Share,
        }
    }

    /// Serves over Iroh. The connection is encrypted, and clients reach the server by its id from anywhere, through
    /// n0's public relays without a direct way. The id is new unless an [identity](Self::identity) is set.
    pub fn iroh() -> Self {
        Self::new(Way::Iroh {
            identity: None,
            direct: None,
        })
    }

    /// Serves over Iroh without relays. Clients dial this address, whose port must be given. The server listens on
    /// every interface, unless the address is a loopback address.
    pub fn iroh_at(address: impl Into<SocketAddr>) -> Self {
        Self::new(Way::Iroh {
            identity: None,
            direct: Some(address.into()),
        })
    }

    /// Serves over a WebSocket, without encryption, for loopback and trusted networks. Port 0 selects a free port.
    pub fn websocket(address: impl Into<SocketAddr>) -> Self {
        Self::new(Way::WebSocket {
            address: address.into(),
            open: false,
        })
    }

    /// Sets the file of the Iroh identity, which keeps the server's id the same. The file is created if it does not
    /// exist.
    pub fn identity(mut self, path: impl Into<PathBuf>) -> Self {
        if let Way::Iroh { identity, .. } = &mut self.way {
            *identity = Some(path.into());
        }
        self
    }

    /// Sets the token that clients have to present, of 16 bytes or more.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Lets in all clients, over a WebSocket on loopback only. Every program of this machine can then use the devices.
    /// This is for programs that can't present a token.
    pub fn without_token(mut self) -> Self {
        if let Way::WebSocket { open, .. } = &mut self.way {
            *open = true;
        }
        self
    }

    /// Adds a folder whose safetensors files clients may load; see [`load_tensor`](super::load_tensor). It may be
    /// called several times.
    pub fn weights(mut self, folder: impl Into<PathBuf>) -> Self {
        self.weights.push(folder.into());
        self
    }

    /// Sets the limits of clients and strangers.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Lets scripts of web pages with this origin connect over a WebSocket, such as `https://example.org`. Browsers
    /// send the origin; other programs send none and are let in. It may be called several times.
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Lets in this Iroh endpoint, and only the endpoints that are listed in this way. It may be called several times.
    /// Clients have the endpoint of their [`client_identity`](super::client_identity).
    pub fn allow_endpoint(mut self, id: EndpointId) -> Self {
        self.endpoints.push(id);
        self
    }

    /// Lets other servers fetch tensors that a client with the token moves to one of their devices. These servers
    /// present no token, but a number that the client made for each tensor. Over a WebSocket it has 64 random bits, and
    /// 32 servers can be connected. Over Iroh it has 256 bits, and servers must also be listed by
    /// [`allow_endpoint`](Self::allow_endpoint). The connection of a server that names no tensor within six times
    /// [`Limits::handshake`] is closed.
    pub fn transfers(mut self) -> Self {
        self.transfers = true;
        self
    }

    /// Sets the maximum number of bytes of a device's memory that one session may hold. The default is the backend's
    /// [limit](super::MemoryLimits), which is half of the memory for a processor. An operation that would exceed the
    /// limit ends its session with an error that states this. The backend's limit for all sessions of a device together
    /// applies with any value set here. The memory of a processor is known only on Linux. On other systems, only the
    /// limit set here applies.
    ///
    /// Buffers count towards a session's memory. Messages in transit are not included.
    pub fn max_session_memory(mut self, bytes: u64) -> Self {
        self.memory = SessionMemory::Bytes(bytes);
        self
    }

    /// Removes the limit, for a server whose only client is this process.
    #[cfg(feature = "npu")]
    pub(crate) fn without_memory_limit(mut self) -> Self {
        self.memory = SessionMemory::All;
        self
    }

    /// Sets the probe to which sessions report the operations that they run.
    pub fn telemetry(mut self, probe: TelemetryProbe) -> Self {
        self.telemetry = Some(probe);
        self
    }
}

impl ServeOptions {
    /// Returns an error for options that are invalid or would have no effect.
    pub(super) fn check(&self) -> Result<(), ServeError> {
        self.limits.check()?;
        let unused = |option| {
            let way = self.way.name();
            Err(ServeError::Unused { option, way })
        };
        if let Some(origin) = self.origins.iter().find(|origin| !is_origin(origin)) {
            return Err(ServeError::Origin(origin.clone()));
        }
        match self.way {
            Way::WebSocket { .. } if !self.endpoints.is_empty() => {
                unused("a list of Iroh endpoints (`--allow-endpoint`)")
            }
            Way::Iroh { .. } if !self.origins.is_empty() => {
                unused("an origin of web pages (`--allow-origin`)")
            }
            Way::Iroh { .. } if self.limits.message.is_some() => {
                unused("the largest message (`--max-message`)")
            }
            Way::Iroh { .. } if self.limits.messages_per_second.is_some() => {
                unused("messages a second (`--max-rate`)")
            }
            Way::Iroh { .. } if self.transfers && self.endpoints.is_empty() => {
                Err(ServeError::Transfers)
            }
            _ => Ok(()),
        }
    }

    /// Returns the authorizer that lets clients with this token in.
    pub(super) fn authorizer(&self, token: &str) -> Result<Box<dyn PeerAuthorizer>, ServeError> {
        if matches!(self.way, Way::WebSocket { open: true, .. }) {
            return Ok(Box::new(AllowAll));
        }
        let length = token.len();
        if length < credential::LEAST {
            return Err(ServeError::ShortToken { length });
        }
        if credential::is_ambiguous(token) {
            return Err(ServeError::Token);
        }
        let token = TokenAuthorizer::new(token).map_err(|_| ServeError::ShortToken { length })?;
        Ok(Box::new(credential::Token(token)))
    }
}

/// Returns `true` if a browser could send this origin.
fn is_origin(text: &str) -> bool {
    let host = ["http://", "https://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme));
    host.is_some_and(|host| {
        let is_part = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase();
        !host.is_empty()
            && host
                .bytes()
                .all(|byte| is_part(byte) && !b"/?#@*".contains(&byte))
    })
}

/// The port or endpoint where clients connect, which is bound or still to be bound.
pub(super) enum Binding {
    Port(TcpListener),
    Endpoint {
        // The key is boxed because it is large compared to a port.
        identity: Box<IrohIdentity>,
        direct: Option<SocketAddr>,
    },
}

impl Way {
    const fn name(&self) -> &'static str {
        match self {
            Self::Iroh { .. } => "Iroh",
            Self::WebSocket { .. } => "a WebSocket",
        }
    }

    /// Returns the address that clients dial. A WebSocket's port is bound here.
    pub(super) fn binding(&self) -> Result<(Address, Binding), ServeError> {
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
                if !address.ip().is_loopback() {
                    warn(format_args!(
                        "ws://{host} can be reached from elsewhere, and nothing on it is encrypted: whoever \
                         sees the traffic has the token; serve over Iroh where the network is not trusted"
                    ));
                }
                Ok((Address::WebSocket { host }, Binding::Port(listener)))
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
                let (id, direct) = (identity.id(), *direct);
                let binding = Binding::Endpoint {
                    identity: Box::new(identity),
                    direct,
                };
                Ok((Address::Iroh { id, direct }, binding))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_what_browsers_send() {
        for origin in [
            "https://example.org",
            "http://localhost:8080",
            "http://[::1]:80",
        ] {
            assert!(is_origin(origin), "{origin}");
        }
        for text in [
            "",
            "*",
            "null",
            "example.org",
            "https://",
            "https://a/",
            "https://A",
            "https://*.a",
        ] {
            assert!(!is_origin(text), "{text}");
        }
    }

    #[test]
    fn what_would_have_no_effect_is_refused() {
        let websocket = || ServeOptions::websocket(([127, 0, 0, 1], 0));
        let id = IrohIdentity::random().id();
        let limits = Limits::default();
        websocket()
            .allow_origin("https://a")
            .transfers()
            .check()
            .unwrap();
        ServeOptions::iroh()
            .allow_endpoint(id)
            .transfers()
            .check()
            .unwrap();
        for (options, named) in [
            (websocket().allow_endpoint(id), "--allow-endpoint"),
            (websocket().allow_origin("*"), "invalid origin `*`"),
            (
                websocket().limits(limits.connections(0)),
                "connections can be 1 or more",
            ),
            (
                ServeOptions::iroh().allow_origin("https://a"),
                "--allow-origin",
            ),
            (
                ServeOptions::iroh().limits(limits.message(1 << 20)),
                "--max-message",
            ),
            (
                ServeOptions::iroh().limits(limits.messages_per_second(9)),
                "--max-rate",
            ),
            (ServeOptions::iroh().transfers(), "--allow-endpoint"),
        ] {
            let said = options.check().unwrap_err().to_string();
            assert!(said.contains(named), "{said}");
        }
    }
}
