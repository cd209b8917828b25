//! The control connection: one TCP connection of each rank to rank 0, for digests and signs of life.
//!
//! Every rank sends a sign of life eight times in the timeout. A rank that is silent for half of it, whose connection
//! closes or that gives up ends the group: rank 0 tells all others. Rank 0 itself is watched by all others. The last
//! quarter of the timeout is for the process, which must have left the group by then ([`Failure`]).

mod failure;
mod hub;
mod message;
mod spoke;
#[cfg(test)]
mod tests;

use crate::{Error, ErrorKind, Options};
pub(crate) use failure::Failure;
pub(crate) use hub::listen;
use message::Message;
pub(crate) use message::Token;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A rank's place in the group, and the secret and options by which it joins.
pub(crate) struct Membership {
    pub rank: usize,
    pub names: Vec<String>,
    pub token: Token,
    pub options: Options,
}

/// The way to rank 0.
pub(crate) enum Way {
    /// This is rank 0, which listens.
    Listen(TcpListener),
    /// Host and port of rank 0.
    Connect(String, u16),
}

/// A rank's control connection.
pub(crate) struct Control {
    failure: Arc<Failure>,
    side: Side,
    /// One comparison at a time.
    agreeing: Mutex<()>,
}

enum Side {
    Hub(Arc<hub::Hub>),
    Spoke(Arc<spoke::Spoke>),
}

impl Control {
    /// Connects all ranks. Returns an error that names the ranks that don't connect within the timeout.
    pub(crate) fn connect(membership: Membership, way: Way) -> Result<Self, Error> {
        let failure = Arc::new(Failure::default());
        let options = membership.options.clone();
        let side = match way {
            Way::Listen(listener) => {
                Side::Hub(hub::Hub::start(membership, &listener, failure.clone())?)
            }
            Way::Connect(host, port) => Side::Spoke(spoke::Spoke::start(
                membership,
                &host,
                port,
                failure.clone(),
            )?),
        };
        failure.watch(&options);
        Ok(Self {
            failure,
            side,
            agreeing: Mutex::new(()),
        })
    }

    pub(crate) fn failure(&self) -> &Arc<Failure> {
        &self.failure
    }

    /// Compares a digest between all ranks.
    pub(crate) fn agree(&self, what: &str, digest: &[u8; 32]) -> Result<(), Error> {
        let _one = self.agreeing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = self.failure.error() {
            return Err(error);
        }
        match &self.side {
            Side::Hub(hub) => hub.agree(what, digest),
            Side::Spoke(spoke) => spoke.agree(what, digest),
        }
    }

    /// Ends the group for a reason of this rank.
    pub(crate) fn fail(&self, reason: &str) {
        match &self.side {
            Side::Hub(hub) => hub.fail(reason),
            Side::Spoke(spoke) => spoke.fail(reason),
        }
    }

    /// Leaves the group, as all ranks do at its end, and waits for the others. After a loss, it waits for nobody.
    pub(crate) fn leave(&self) {
        match &self.side {
            Side::Hub(hub) => hub.leave(),
            Side::Spoke(spoke) => spoke.leave(),
        }
        self.failure.end();
    }
}

// The connections close, even if the group could not end in order.
impl Drop for Control {
    fn drop(&mut self) {
        self.failure.end();
        match &self.side {
            Side::Hub(hub) => hub.close(),
            Side::Spoke(spoke) => spoke.close(),
        }
    }
}

/// Returns a new secret, from the random numbers of the system behind the standard library's hash maps.
pub(crate) fn new_token() -> Token {
    let mut token = [0; 32];
    for (place, bytes) in token.chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&RandomState::new().hash_one(place).to_le_bytes());
    }
    token
}

fn interval(options: &Options) -> Duration {
    options.timeout / 8
}

fn silence(options: &Options) -> Duration {
    options.timeout / 2
}

/// The sending side of a connection. After the last message, nothing more is sent.
struct Writer {
    stream: TcpStream,
    ended: bool,
}

impl Writer {
    fn new(stream: &TcpStream, options: &Options) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(silence(options)))?;
        stream.set_read_timeout(Some(silence(options)))?;
        Ok(Self {
            stream: stream.try_clone()?,
            ended: false,
        })
    }

    /// Sends a message. A failure is left to the reading side, which sees that the peer is gone.
    fn send(&mut self, message: &Message) {
        if !self.ended {
            self.ended = message.write(&mut self.stream).is_err() || *message == Message::Leaves;
        }
    }

    fn close(&mut self) {
        self.ended = true;
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// A value under a lock that others wait for.
#[derive(Default)]
struct Watched<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Watched<T> {
    fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `ready` returns a value, or the time is over.
    fn wait_for<R>(
        &self,
        most: Option<Duration>,
        mut ready: impl FnMut(&mut T) -> Option<R>,
    ) -> Option<R> {
        let start = std::time::Instant::now();
        let mut value = self.lock();
        loop {
            if let Some(result) = ready(&mut value) {
                return Some(result);
            }
            // Looks again now and then, because a loss does not change this value.
            let tick = Duration::from_millis(20);
            if most.is_some_and(|most| start.elapsed() >= most) {
                return None;
            }
            value = self
                .changed
                .wait_timeout(value, tick)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn verdict(problem: &str) -> Result<(), Error> {
    match problem.is_empty() {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Differs, problem)),
    }
}

fn connection(problem: String) -> Error {
    Error::new(ErrorKind::Connection, problem)
}
