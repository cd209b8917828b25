//! Why devices can't be served.

use super::credential::LEAST;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why devices can't be served.
#[derive(thiserror::Error)]
pub enum ServeError {
    /// The address can't be listened on.
    #[error("{address} can't be listened on: {source}; port 0 is a free one")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// Clients dial an address over Iroh, and its port is none.
    #[error("{0} can't be dialled: choose a port above 0 for Iroh")]
    Port(SocketAddr),
    /// The token ends as only the numbers of connections do.
    #[error("the token ends in a zero byte and 16 characters; leave it out, and one is made")]
    Token,
    /// The token is short enough to be guessed.
    #[error(
        "the token has {length} bytes, and needs {LEAST} so that nobody guesses it; leave it out, and one is made"
    )]
    ShortToken {
        /// Its length in bytes.
        length: usize,
    },
    /// A limit is none, or lets nobody in.
    #[error("{name} can be {takes}")]
    Limit {
        /// The name of the limit.
        name: &'static str,
        /// The values that it can have.
        takes: &'static str,
    },
    /// An option does not apply to the way in which devices are served.
    #[error("{option} has no meaning over {way}; leave it out")]
    Unused {
        /// The option.
        option: &'static str,
        /// The way in which devices are served.
        way: &'static str,
    },
    /// A text that is no origin of web pages.
    #[error(
        "`{0}` is no origin: a browser sends scheme, host and port alone, as in `https://example.org` or `http://localhost:8080`"
    )]
    Origin(String),
    /// Over Iroh, tensors would be given to every server.
    #[error(
        "over Iroh transfers need the list of the servers that fetch tensors: servers present no token, so name each by its id (`--allow-endpoint`)"
    )]
    Transfers,
    /// Iroh's own reason.
    #[error("Iroh can't be started: {0}")]
    Iroh(String),
    /// Serving without a token to others than this machine.
    #[error("{0} can be reached from elsewhere; without a token only loopback is served")]
    OpenToOthers(SocketAddr),
    /// A folder of weights is not there, or is no folder.
    #[error("the folder of weights {path} can't be read: {source}")]
    Weights {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file of the server's identity can't be read or made.
    #[error("the identity in {path} can't be read or made: {source}")]
    Identity {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// No thread or no runtime.
    #[error("the server can't be started: {0}")]
    Start(std::io::Error),
    /// Burn's own error.
    #[error(transparent)]
    Burn(#[from] burn::server::ServeError),
}
