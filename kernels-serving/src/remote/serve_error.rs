//! The errors of serving devices.

use super::credential::LEAST;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The reason why devices can't be served.
#[derive(thiserror::Error)]
pub enum ServeError {
    /// The server can't listen on the address.
    #[error("{address} can't be listened on: {source}; port 0 is a free one")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// The port is 0, but clients have to dial the address over Iroh.
    #[error("{0} can't be dialled: choose a port above 0 for Iroh")]
    Port(SocketAddr),
    /// The token ends like a credential with a connection's number.
    #[error("the token ends in a zero byte and 16 characters; leave it out, and one is made")]
    Token,
    /// The token is so short that it could be guessed.
    #[error(
        "the token has {length} bytes, and needs {LEAST} so that nobody guesses it; leave it out, and one is made"
    )]
    ShortToken {
        /// The token's length in bytes.
        length: usize,
    },
    /// A limit is invalid, or lets no client in.
    #[error("{name} can be {takes}")]
    Limit {
        /// The name of the limit.
        name: &'static str,
        /// The values that it can have.
        takes: &'static str,
    },
    /// An option does not apply to this way of serving.
    #[error("{option} has no meaning over {way}; leave it out")]
    Unused {
        /// The option.
        option: &'static str,
        /// The way of serving.
        way: &'static str,
    },
    /// A text that is not an origin of web pages.
    #[error(
        "invalid origin `{0}`: a browser sends scheme, host and port alone, as in `https://example.org` or `http://localhost:8080`"
    )]
    Origin(String),
    /// Transfers over Iroh without a list of servers, with which every server could fetch tensors.
    #[error(
        "over Iroh transfers need the list of the servers that fetch tensors: servers present no token, so name each by its id (`--allow-endpoint`)"
    )]
    Transfers,
    /// An error of Iroh.
    #[error("Iroh can't be started: {0}")]
    Iroh(String),
    /// Serving without a token to other machines.
    #[error("{0} can be reached from elsewhere; without a token only loopback is served")]
    OpenToOthers(SocketAddr),
    /// A folder of weights that does not exist or is not a folder.
    #[error("the folder of weights {path} can't be read: {source}")]
    Weights {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file of the server's identity can't be read or created.
    #[error("the identity in {path} can't be read or made: {source}")]
    Identity {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The thread or the runtime can't be started.
    #[error("the server can't be started: {0}")]
    Start(std::io::Error),
    /// An error of Burn.
    #[error(transparent)]
    Burn(#[from] burn::server::ServeError),
}
