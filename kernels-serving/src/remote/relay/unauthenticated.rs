//! A connection that has not presented a token.

use super::super::limits::BEFORE_TOKEN;
use super::handshake::Refusal;
use std::io::Cursor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{Request, create_response, write_response};
use tungstenite::http::StatusCode;
use tungstenite::http::header::ORIGIN;
use tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, Frame, FrameHeader};

/// The maximum size of a request for a WebSocket, in bytes. Burn's clients send some 200 bytes.
const REQUEST: usize = 8 << 10;

/// The answer to a client if the server is full. [`connect`](super::super::connect) recognises the status.
pub(super) const FULL: &str =
    "the server has as many connections as it may have; see --max-connections";

/// The service that a client requests by the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// Operations on a device.
    Session,
    /// A tensor that another server fetches.
    Transfer,
}

/// The services that a server offers to strangers.
#[derive(Debug, Default)]
pub(super) struct Offer {
    /// The web pages whose scripts may connect, in the form that browsers send.
    pub(super) origins: Vec<String>,
    /// True if other servers may fetch tensors.
    pub(super) transfers: bool,
}

/// The reason why a connection was turned away.
#[derive(Debug, thiserror::Error)]
pub(super) enum Turned {
    #[error(transparent)]
    Gone(#[from] std::io::Error),
    #[error("it closed before its token")]
    Closed,
    #[error("{0}")]
    Refused(&'static str),
}

/// A socket with the bytes that were read from it, which are never more than [`BEFORE_TOKEN`] in total.
#[derive(Debug)]
pub(super) struct Unauthenticated {
    socket: TcpStream,
    /// The bytes that were read and not used yet.
    held: Vec<u8>,
    received: usize,
}

impl Unauthenticated {
    pub(super) fn new(socket: TcpStream) -> Self {
        Self {
            socket,
            held: Vec::new(),
            received: 0,
        }
    }

    /// Returns the socket, and the bytes that it sent after its first message.
    pub(super) fn into_parts(self) -> (TcpStream, Vec<u8>) {
        (self.socket, self.held)
    }

    async fn more(&mut self) -> Result<(), Turned> {
        let room = BEFORE_TOKEN - self.received;
        if room == 0 {
            return Err(Turned::Refused("it sent 64 KiB without a token"));
        }
        self.held.reserve(room.min(1 << 10));
        let mut socket = (&mut self.socket).take(room as u64);
        let read = socket.read_buf(&mut self.held).await?;
        self.received += read;
        if read == 0 {
            return Err(Turned::Closed);
        }
        Ok(())
    }

    /// Reads the request for a WebSocket and answers it. A full server refuses a session.
    pub(super) async fn upgrade(
        &mut self,
        offer: &Offer,
        is_full: bool,
    ) -> Result<Service, Turned> {
        let request = loop {
            match Request::try_parse(&self.held) {
                Ok(Some((length, request))) => {
                    self.held.drain(..length);
                    break request;
                }
                Ok(None) if self.held.len() < REQUEST => self.more().await?,
                _ => {
                    return Err(self
                        .refuse(StatusCode::BAD_REQUEST, "it sent no request")
                        .await);
                }
            }
        };
        let service = match offer.service(&request) {
            Ok(service) => service,
            Err((status, why)) => return Err(self.refuse(status, why).await),
        };
        if is_full && service == Service::Session {
            return Err(self.refuse(StatusCode::SERVICE_UNAVAILABLE, FULL).await);
        }
        let Ok(response) = create_response(&request) else {
            let why = "it asked for no WebSocket";
            return Err(self.refuse(StatusCode::BAD_REQUEST, why).await);
        };
        let mut bytes = Vec::new();
        if write_response(&mut bytes, &response).is_err() {
            return Err(Turned::Refused("the answer can't be written"));
        }
        self.socket.write_all(&bytes).await?;
        Ok(service)
    }

    /// Answers a request with an error. The client's error message shows the status and the headers.
    async fn refuse(&mut self, status: StatusCode, why: &'static str) -> Turned {
        let answer = format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\nburn-kernels: {why}\r\n\r\n"
        );
        match self.say(answer.as_bytes()).await {
            Ok(()) => Turned::Refused(why),
            Err(gone) => gone.into(),
        }
    }

    async fn say(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.socket.write_all(bytes).await?;
        self.socket.shutdown().await
    }

    /// Reads the first message, which is one binary frame.
    pub(super) async fn first_message(&mut self) -> Result<Vec<u8>, Turned> {
        loop {
            let mut cursor = Cursor::new(&self.held);
            let parsed = FrameHeader::parse(&mut cursor);
            let start = cursor.position() as usize;
            let Ok(parsed) = parsed else {
                return Err(self.close(CloseCode::Protocol, "it sent no frame").await);
            };
            let Some((header, length)) = parsed else {
                self.more().await?;
                continue;
            };
            // Bytes that are only declared take no memory.
            let room = BEFORE_TOKEN - (self.received - self.held.len()) - start;
            let Some(length) = usize::try_from(length)
                .ok()
                .filter(|length| *length <= room)
            else {
                let why = "its first message says that it is longer than 64 KiB";
                return Err(self.close(CloseCode::Size, why).await);
            };
            let is_message = header.opcode == OpCode::Data(Data::Binary) && header.is_final;
            let is_probe = matches!(
                header.opcode,
                OpCode::Control(Control::Ping | Control::Pong)
            );
            let Some(mask) = header.mask.filter(|_| is_message || is_probe) else {
                let why = "its first frame is not a binary message";
                return Err(self.close(CloseCode::Protocol, why).await);
            };
            while self.held.len() < start + length {
                self.more().await?;
            }
            let mut payload = self.held.split_off(start);
            self.held = payload.split_off(length);
            if is_message {
                let masks = mask.iter().cycle();
                payload
                    .iter_mut()
                    .zip(masks)
                    .for_each(|(byte, mask)| *byte ^= mask);
                return Ok(payload);
            }
        }
    }

    /// Refuses a session as Burn does: it sends a message and then closes the connection.
    pub(super) async fn refuse_session(&mut self, refusal: Refusal) -> std::io::Result<()> {
        let opcode = OpCode::Data(Data::Binary);
        let mut bytes = to_bytes(Frame::message(refusal.to_bytes(), opcode, true));
        bytes.extend(to_bytes(closing(CloseCode::Normal, "Peer is closing")));
        self.say(&bytes).await
    }

    /// Closes the WebSocket with a reason.
    pub(super) async fn close(&mut self, code: CloseCode, why: &'static str) -> Turned {
        match self.say(&to_bytes(closing(code, why))).await {
            Ok(()) => Turned::Refused(why),
            Err(gone) => gone.into(),
        }
    }
}

impl Offer {
    fn service(&self, request: &Request) -> Result<Service, (StatusCode, &'static str)> {
        let is_allowed = |origin: &[u8]| {
            let mut allowed = self.origins.iter();
            allowed.any(|allowed| allowed.as_bytes() == origin)
        };
        let mut origins = request.headers().get_all(ORIGIN).iter();
        if !origins.all(|origin| is_allowed(origin.as_bytes())) {
            let why = "web pages of this origin are not let in; see --allow-origin";
            return Err((StatusCode::FORBIDDEN, why));
        }
        match request.uri().path() {
            "/session" => Ok(Service::Session),
            "/data" if self.transfers => Ok(Service::Transfer),
            "/data" => {
                let why = "this server gives no tensors to other servers; see --transfers";
                Err((StatusCode::FORBIDDEN, why))
            }
            _ => Err((StatusCode::NOT_FOUND, "nothing is served at this path")),
        }
    }
}

fn closing(code: CloseCode, why: &'static str) -> Frame {
    let reason = why.into();
    Frame::close(Some(CloseFrame { code, reason }))
}

fn to_bytes(frame: Frame) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(frame.len());
    frame.format(&mut bytes).expect("memory can be written");
    bytes
}
