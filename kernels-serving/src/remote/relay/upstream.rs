//! The connection from the relay to Burn's server, which only the relay can use.
//!
//! Burn listens on loopback, where every program of the machine can connect, and reads messages of 1 GiB before it asks
//! for a credential. On Linux, the kernel therefore drops data from any other socket than the one that the relay dials
//! with. A filter on the listener names that socket's port, which belongs to the relay until the connection ends. An
//! accepted connection keeps the filter that was set then. On other systems, only the secret keeps other programs from
//! getting a session.

use kernels_runtime::__private::warn;
use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Mutex;
use tungstenite::handshake::client::{Response, generate_key};
use tungstenite::handshake::machine::TryParse;
use tungstenite::http::StatusCode;

/// The maximum time that Burn's server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Burn's listener, and the control of access to it.
#[derive(Debug)]
pub(super) struct Upstream {
    /// A handle of the socket that Burn listens on, used to set the filter.
    listener: TcpListener,
    address: SocketAddr,
    secret: String,
    /// The lock of dialling. The filter names one port, so connections are made one at a time.
    dialling: Mutex<()>,
}

impl Upstream {
    /// Returns the listener for Burn's server, which accepts nobody until the relay dials, and the control of access to it.
    pub(super) fn new() -> Result<(Self, TcpListener)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        if let Err(error) = filter::only(&listener, None) {
            warn(format_args!(
                "the server of Burn behind {address} can't be closed to other programs of this machine, \
                 which can send it messages of up to 1 GiB: {error}"
            ));
        }
        let upstream = Self {
            listener: listener.try_clone()?,
            address,
            secret: super::super::credential::random_token(),
            dialling: Mutex::new(()),
        };
        Ok((upstream, listener))
    }

    /// Returns the secret that Burn's server must ask for.
    pub(super) fn secret(&self) -> &str {
        &self.secret
    }

    /// Opens a WebSocket of Burn's server at this path. Returns it with the bytes that the server has sent already.
    pub(super) async fn dial(&self, path: &str) -> Result<(TcpStream, Vec<u8>)> {
        let _one = self.dialling.lock().await;
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let _open = Open::to(&self.listener, socket.local_addr()?);
        let dialled = tokio::time::timeout(PATIENCE, self.connect(socket, path));
        dialled.await.map_err(|_| ErrorKind::TimedOut)?
    }

    async fn connect(&self, socket: TcpSocket, path: &str) -> Result<(TcpStream, Vec<u8>)> {
        let mut stream = socket.connect(self.address).await?;
        stream.set_nodelay(true)?;
        let (host, key) = (self.address, generate_key());
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut held = Vec::with_capacity(1 << 10);
        loop {
            if stream.read_buf(&mut held).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let answer = Response::try_parse(&held).map_err(Error::other)?;
            let Some((length, answer)) = answer else {
                continue;
            };
            if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
                return Err(Error::other(format!(
                    "Burn's server says {}",
                    answer.status()
                )));
            }
            held.drain(..length);
            return Ok((stream, held));
        }
    }
}

/// The listener while it accepts one socket. When this is dropped, Burn has answered the socket.
struct Open<'a>(&'a TcpListener);

impl<'a> Open<'a> {
    /// Lets a socket connect. Without filters, which [`Upstream::new`] warns about, every socket can.
    fn to(listener: &'a TcpListener, socket: SocketAddr) -> Self {
        let _ = filter::only(listener, Some(socket.port()));
        Self(listener)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let _ = filter::only(self.0, None);
    }
}

#[cfg(target_os = "linux")]
mod filter {
    use socket2::{SockFilter, SockRef};
    use std::io::Result;
    use std::net::{Ipv4Addr, TcpListener};

    // Instructions of classic BPF, from `linux/bpf_common.h`, and the place of the packet: for a TCP socket, it begins
    // with the TCP header, and the IP header is at a special offset (`linux/filter.h`).
    const LOAD_WORD: u16 = 0x20;
    const LOAD_HALF: u16 = 0x28;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const IP_HEADER: u32 = -0x10_0000_i32 as u32;
    const IP_SOURCE: u32 = 12;
    const TCP_SOURCE_PORT: u32 = 0;

    /// Drops every packet that is not from this port of 127.0.0.1.
    pub(super) fn only(listener: &TcpListener, port: Option<u16>) -> Result<()> {
        const DROP: SockFilter = SockFilter::new(RETURN, 0, 0, 0);
        const KEEP: SockFilter = SockFilter::new(RETURN, 0, 0, u32::MAX);
        let socket = SockRef::from(listener);
        let Some(port) = port else {
            return socket.attach_filter(&[DROP]);
        };
        // A jump skips the given numbers of instructions, the first if the values are equal, the second otherwise.
        socket.attach_filter(&[
            SockFilter::new(LOAD_WORD, 0, 0, IP_HEADER + IP_SOURCE),
            SockFilter::new(JUMP_IF_EQUAL, 0, 3, Ipv4Addr::LOCALHOST.to_bits()),
            SockFilter::new(LOAD_HALF, 0, 0, TCP_SOURCE_PORT),
            SockFilter::new(JUMP_IF_EQUAL, 0, 1, u32::from(port)),
            KEEP,
            DROP,
        ])
    }
}

#[cfg(not(target_os = "linux"))]
mod filter {
    use std::io::{ErrorKind, Result};
    use std::net::TcpListener;

    pub(super) fn only(_: &TcpListener, _: Option<u16>) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }
}
