//! The limits of a server's clients, and of strangers.

use super::ServeError;
use std::time::Duration;

/// The limits of a server, for strangers and for clients.
///
/// ```
/// use kernels_runtime::remote::{Limits, ServeOptions};
///
/// let limits = Limits::default().connections(16).message(64 << 20);
/// let options = ServeOptions::websocket(([127, 0, 0, 1], 0)).limits(limits);
/// ```
///
/// | limit | default | what happens beyond it |
/// |---|---|---|
/// | [`connections`](Self::connections) | 256 | a new client is told that the server is full |
/// | [`waiting`](Self::waiting) | 64 | the oldest waiting connection of whoever has most of them is closed |
/// | [`handshake`](Self::handshake) | 10 s | the connection is closed |
/// | [`message`](Self::message) | 1 GiB | the session is closed, and the server's log says why |
/// | [`messages_per_second`](Self::messages_per_second) | 50,000 | the client waits; nothing is lost |
///
/// Before its token a connection can send 64 KiB, whatever the limits are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub(super) connections: usize,
    pub(super) waiting: usize,
    pub(super) handshake: Duration,
    pub(super) message: Option<u64>,
    pub(super) messages_per_second: Option<u32>,
}

/// The largest message that Burn reads.
const LARGEST: u64 = 1 << 30;

/// Messages a second where nothing else was said: some five times what a client gets through that
/// waits for each answer.
const RATE: u32 = 50_000;

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            waiting: 64,
            handshake: Duration::from_secs(10),
            message: None,
            messages_per_second: None,
        }
    }
}

impl Limits {
    /// Sets the most connections with the token at once. Over a WebSocket each session is one:
    /// one for each device that a [`connect`](super::connect) gave. Over Iroh each client program is one, with
    /// up to 100 sessions.
    pub fn connections(mut self, most: usize) -> Self {
        self.connections = most;
        self
    }

    /// Sets the most connections that may wait at once without having presented the token.
    pub fn waiting(mut self, most: usize) -> Self {
        self.waiting = most;
        self
    }

    /// The time from a connection's first byte to its token. Another server that fetches tensors has no token; it
    /// has six times as long until it names one that is there.
    pub fn handshake(mut self, longest: Duration) -> Self {
        self.handshake = longest;
        self
    }

    /// The bytes of one message of a client, 64 KiB to 1 GiB; over a WebSocket only. Weights travel in
    /// messages: a tensor that is sent whole must fit.
    pub fn message(mut self, bytes: u64) -> Self {
        self.message = Some(bytes);
        self
    }

    /// Sets the most messages a second of a connection; over a WebSocket only.
    pub fn messages_per_second(mut self, most: u32) -> Self {
        self.messages_per_second = Some(most);
        self
    }

    /// The time for another server to name a tensor that is there. It may have to be computed first.
    pub(super) fn first_tensor(&self) -> Duration {
        self.handshake.saturating_mul(6)
    }

    pub(super) fn largest_message(&self) -> u64 {
        self.message.unwrap_or(LARGEST)
    }

    pub(super) fn rate(&self) -> u32 {
        self.messages_per_second.unwrap_or(RATE)
    }

    /// Refuses what would let nobody in, or what Burn does not do.
    pub(super) fn check(&self) -> Result<(), ServeError> {
        let refuse = |name, takes| Err(ServeError::Limit { name, takes });
        if self.connections == 0 {
            return refuse("connections", "1 or more");
        }
        if self.waiting == 0 {
            return refuse("waiting connections", "1 or more");
        }
        if self.handshake.is_zero() {
            return refuse("the time of a handshake", "more than nothing");
        }
        if !(BEFORE_TOKEN as u64..=LARGEST).contains(&self.largest_message()) {
            return refuse(
                "the bytes of a message",
                "64 KiB (65536) to 1 GiB (1073741824)",
            );
        }
        if self.rate() == 0 {
            return refuse("messages a second", "1 or more");
        }
        Ok(())
    }
}

/// The most bytes of a connection before its token.
pub(super) const BEFORE_TOKEN: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_let_nobody_in_are_refused() {
        Limits::default().check().unwrap();
        let least = Limits::default().connections(1).waiting(1).message(65536);
        least.messages_per_second(1).check().unwrap();
        for (limits, named) in [
            (Limits::default().connections(0), "connections"),
            (Limits::default().waiting(0), "waiting connections"),
            (Limits::default().handshake(Duration::ZERO), "handshake"),
            (Limits::default().message(65535), "bytes of a message"),
            (
                Limits::default().message((1 << 30) + 1),
                "bytes of a message",
            ),
            (
                Limits::default().messages_per_second(0),
                "messages a second",
            ),
        ] {
            let said = limits.check().unwrap_err().to_string();
            assert!(said.contains(named), "{said}");
        }
    }
}
