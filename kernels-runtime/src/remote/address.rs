//! The addresses of servers.

use burn::remote::{EndpointId, IrohHost, IrohRelays, RemoteHost};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// The address of a server, as its program prints it and [`connect`](super::connect) takes it:
///
/// | text | server |
/// |---|---|
/// | `iroh://ID` | the Iroh server with this id, anywhere; through n0's public relays if no direct way is found |
/// | `iroh://ID@HOST:PORT` | the same, dialled only at this address, without relays |
/// | `ws://HOST:PORT` | a WebSocket server, without encryption |
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A server that is reached over Iroh.
    Iroh {
        /// The server's public key.
        id: EndpointId,
        /// The only address to dial, without relays.
        direct: Option<SocketAddr>,
    },
    /// A server that is reached over a WebSocket.
    WebSocket {
        /// The host name or address, and the port.
        host: String,
    },
}

/// A text that is not an [`Address`].
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid server address `{}` ({}); `kernels serve` prints it, as `iroh://ID` or `ws://HOST:PORT`",
    kernels_io::escape(.text),
    kernels_io::escape(.problem)
)]
pub struct InvalidAddress {
    text: String,
    problem: String,
}

impl From<std::convert::Infallible> for InvalidAddress {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl Address {
    /// # Errors
    /// Returns an error if this program's endpoint can't be bound.
    pub(super) fn host(&self, credential: Vec<u8>) -> std::io::Result<RemoteHost> {
        let host = match self {
            Self::WebSocket { host } => RemoteHost::websocket(&format!("ws://{host}")),
            Self::Iroh { id, direct } => {
                let host = IrohHost::new(*id);
                let host = match (super::endpoint::endpoint(direct.is_none())?, direct) {
                    (Some(endpoint), _) => host.with_endpoint(endpoint),
                    (None, Some(_)) => host.with_relays(IrohRelays::Disabled),
                    (None, None) => host,
                };
                RemoteHost::iroh(match direct {
                    Some(address) => host.with_address(*address),
                    None => host,
                })
            }
        };
        Ok(host.with_credential(credential))
    }
}

impl TryFrom<&str> for Address {
    type Error = InvalidAddress;

    fn try_from(text: &str) -> Result<Self, InvalidAddress> {
        text.parse()
    }
}

impl From<&Self> for Address {
    fn from(address: &Self) -> Self {
        address.clone()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WebSocket { host } => write!(f, "ws://{host}"),
            Self::Iroh { id, direct: None } => write!(f, "iroh://{id}"),
            Self::Iroh {
                id,
                direct: Some(address),
            } => write!(f, "iroh://{id}@{address}"),
        }
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let invalid = |problem: String| InvalidAddress {
            text: text.to_owned(),
            problem,
        };
        if let Some(host) = text.strip_prefix("ws://") {
            let host = host.trim_end_matches('/');
            let port = host
                .rsplit_once(':')
                .and_then(|(_, port)| port.parse::<u16>().ok());
            return match port {
                Some(_) => Ok(Self::WebSocket {
                    host: host.to_owned(),
                }),
                None => Err(invalid("the port is missing".to_owned())),
            };
        }
        let Some(rest) = text.strip_prefix("iroh://") else {
            return Err(invalid(
                "it starts neither with ws:// nor with iroh://".to_owned(),
            ));
        };
        let (id, direct) = match rest.split_once('@') {
            Some((id, address)) => {
                let address = address.parse::<SocketAddr>();
                (
                    id,
                    Some(address.map_err(|error| invalid(error.to_string()))?),
                )
            }
            None => (rest, None),
        };
        let id = id.parse().map_err(|error| invalid(format!("{error}")))?;
        Ok(Self::Iroh { id, direct })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_print_and_parse_back() {
        let id = burn::server::IrohIdentity::random().id();
        for text in [
            "ws://127.0.0.1:3000".to_owned(),
            "ws://[::1]:80".to_owned(),
            "ws://npu-host:1".to_owned(),
            format!("iroh://{id}"),
            format!("iroh://{id}@10.0.0.7:4433"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_says_so() {
        for text in [
            "",
            "3000",
            "ws://host",
            "ws://host:port",
            "iroh://short",
            "http://a:1",
        ] {
            let message = text.parse::<Address>().unwrap_err().to_string();
            assert!(message.contains("`kernels serve` prints it"), "{message}");
        }
    }
}
