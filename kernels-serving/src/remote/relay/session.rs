//! A connection that presented the token.

use super::super::limits::BEFORE_TOKEN;
use super::Relay;
use super::frames::{Meter, Rate, Unfit};
use super::handshake::{Init, Refusal};
use super::unauthenticated::{FULL, Service, Turned, Unauthenticated};
use super::upstream::Upstream;
use burn::server::{AuthorizationRequest, ClientId};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};

/// The initial and the maximum size of the buffer for each direction, in bytes. Most messages are small, but weights
/// are not.
const BUFFER: (usize, usize) = (4 << 10, 256 << 10);

/// A connection that may connect to Burn's server.
pub(super) struct Admitted {
    client: Unauthenticated,
    /// The path at Burn's server, followed by the bytes that are sent first.
    path: &'static str,
    first: Vec<u8>,
    meter: Meter,
    rate: Rate,
    /// The time in which Burn's server must answer. Burn itself waits without a limit.
    patience: Option<Duration>,
    _permit: OwnedSemaphorePermit,
}

/// The reason why the relay closed a session.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("the server of Burn can't be reached: {0}")]
    Behind(std::io::Error),
    #[error(transparent)]
    Unfit(#[from] Unfit),
    #[error("it named no tensor that was there within {0:?}")]
    Unanswered(Duration),
}

impl Relay {
    /// Reads a connection until its token. The caller limits the time.
    pub(super) async fn admit(
        &self,
        socket: TcpStream,
        address: SocketAddr,
    ) -> Result<Admitted, Turned> {
        let mut client = Unauthenticated::new(socket);
        let is_full = self.sessions.available_permits() == 0;
        match client.upgrade(&self.offer, is_full).await? {
            Service::Session => self.admit_session(client, address).await,
            Service::Transfer => self.admit_transfer(client).await,
        }
    }

    async fn admit_session(
        &self,
        mut client: Unauthenticated,
        address: SocketAddr,
    ) -> Result<Admitted, Turned> {
        let init = match Init::read(&client.first_message().await?) {
            Ok(init) => init,
            Err(refusal) => {
                client.refuse_session(refusal).await?;
                return Err(Turned::Refused("its first message asks for no session"));
            }
        };
        let authorized = self.authorizer.authorize(AuthorizationRequest {
            client: ClientId::WebSocket(address),
            device_index: init.device_index,
            credential: &init.authorization.as_slice().into(),
        });
        if let Err(reason) = authorized {
            tracing::warn!("{reason}");
            client.refuse_session(Refusal::Unauthorized).await?;
            return Err(Turned::Refused("it has no token"));
        }
        let first = message(init.with_credential(self.upstream.secret().as_bytes()));
        let meter = Meter::new(self.limits.largest_message());
        self.admitted(client, &self.sessions, "/session", first, meter)
            .await
    }

    /// Admits another server, which presents a number for each tensor and no token before. The first known number
    /// serves as its token. Until then it is not authenticated, and its time is limited.
    async fn admit_transfer(&self, client: Unauthenticated) -> Result<Admitted, Turned> {
        let meter = Meter::new(BEFORE_TOKEN as u64);
        let places = &self.transfers;
        let admitted = self
            .admitted(client, places, "/data", Vec::new(), meter)
            .await?;
        Ok(Admitted {
            patience: Some(self.limits.first_tensor()),
            ..admitted
        })
    }

    async fn admitted(
        &self,
        mut client: Unauthenticated,
        places: &Arc<Semaphore>,
        path: &'static str,
        first: Vec<u8>,
        meter: Meter,
    ) -> Result<Admitted, Turned> {
        let Ok(permit) = Arc::clone(places).try_acquire_owned() else {
            return Err(client.close(CloseCode::Again, FULL).await);
        };
        Ok(Admitted {
            client,
            path,
            first,
            meter,
            rate: Rate::new(self.limits.rate()),
            patience: None,
            _permit: permit,
        })
    }
}

/// Returns a message from the client's side, with a mask that changes nothing.
fn message(payload: Vec<u8>) -> Vec<u8> {
    let header = FrameHeader {
        opcode: OpCode::Data(Data::Binary),
        mask: Some([0; 4]),
        ..FrameHeader::default()
    };
    let length = payload.len() as u64;
    let mut bytes = Vec::with_capacity(header.len(length) + payload.len());
    header
        .format(length, &mut bytes)
        .expect("memory can be written");
    bytes.extend(payload);
    bytes
}

impl Admitted {
    /// Passes bytes between the client and Burn's server until one of them ends.
    pub(super) async fn relay(self, upstream: &Upstream) -> Result<(), Ended> {
        let Self {
            client,
            path,
            first,
            meter,
            rate,
            patience,
            _permit,
        } = self;
        let (mut client, held) = client.into_parts();
        let (mut burn, answered) = upstream.dial(path).await.map_err(Ended::Behind)?;
        burn.write_all(&first).await.map_err(Ended::Behind)?;
        let (from_client, mut to_client) = client.split();
        let (from_burn, mut to_burn) = burn.split();
        let mut pace = Look::Client(Pace { meter, rate });
        let up = async {
            pace.at(&held).await?;
            if to_burn.write_all(&held).await.is_ok() {
                drop(held);
                pass(from_client, &mut to_burn, pace).await?;
            }
            // Burn ends the session after it has answered all requests.
            let _ = to_burn.shutdown().await;
            Ok::<(), Unfit>(())
        };
        let first = First::new(patience);
        let down = async {
            if to_client.write_all(&answered).await.is_ok() {
                pass(from_burn, &mut to_client, Look::Server(first.answers())).await?;
            }
            let _ = to_client.shutdown().await;
            Ok::<(), Unfit>(())
        };
        let both = async {
            let (mut up, mut down) = (std::pin::pin!(up), std::pin::pin!(down));
            tokio::select! {
                ended = &mut up => {
                    ended?;
                    down.await?;
                }
                ended = &mut down => ended?,
            }
            Ok::<(), Ended>(())
        };
        tokio::select! {
            ended = both => ended,
            late = first.is_late() => Err(Ended::Unanswered(late)),
        }
    }
}

/// The first answer of Burn's server, if there is a time limit for it.
struct First {
    patience: Option<Duration>,
    came: Notify,
}

impl First {
    fn new(patience: Option<Duration>) -> Self {
        let came = Notify::new();
        Self { patience, came }
    }

    fn answers(&self) -> Answers<'_> {
        let meter = self.patience.is_some().then(|| Meter::new(u64::MAX));
        Answers { first: self, meter }
    }

    /// Waits until the time is over, and returns if no answer has arrived.
    async fn is_late(&self) -> Duration {
        if let Some(patience) = self.patience {
            let came = tokio::time::timeout(patience, self.came.notified());
            if came.await.is_err() {
                return patience;
            }
        }
        std::future::pending().await
    }
}

/// The bytes that Burn's server sends, until they contain a message. The server also answers probes without a token,
/// which are not messages.
struct Answers<'a> {
    first: &'a First,
    meter: Option<Meter>,
}

impl Answers<'_> {
    fn spend(&mut self, bytes: &[u8]) -> Result<(), Unfit> {
        if let Some(meter) = &mut self.meter {
            meter.pass(bytes)?;
            if meter.has_message() {
                self.first.came.notify_one();
                self.meter = None;
            }
        }
        Ok(())
    }
}

/// The limits of a client's messages, in size and rate.
struct Pace {
    meter: Meter,
    rate: Rate,
}

impl Pace {
    async fn spend(&mut self, bytes: &[u8]) -> Result<(), Unfit> {
        let frames = self.meter.pass(bytes)?;
        self.rate.spend(frames).await;
        Ok(())
    }
}

/// The check of the bytes that pass.
enum Look<'a> {
    Client(Pace),
    Server(Answers<'a>),
}

impl Look<'_> {
    async fn at(&mut self, bytes: &[u8]) -> Result<(), Unfit> {
        match self {
            Self::Client(pace) => pace.spend(bytes).await,
            Self::Server(answers) => answers.spend(bytes),
        }
    }
}

/// Passes bytes on after a check, until one end is closed, which is how sessions end.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    to: &mut (impl AsyncWrite + Unpin),
    mut look: Look<'_>,
) -> Result<(), Unfit> {
    let (least, most) = BUFFER;
    let mut buffer = vec![0; least];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let bytes = &buffer[..read];
        look.at(bytes).await?;
        if to.write_all(bytes).await.is_err() {
            break;
        }
        if read == buffer.len() && read < most {
            buffer.resize(2 * read, 0);
        }
    }
    Ok(())
}
