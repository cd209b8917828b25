//! The limits of a server for clients and strangers.

use super::ServeError;
use std::time::Duration;

/// The limits of a server for clients and strangers.
///
/// ```
/// # extern crate kernels_serving as burn_kernels;
/// use burn_kernels::remote::{Limits, ServeOptions};
///
/// let limits = Limits::default().connections(16).message(64 << 20);
/// let options = ServeOptions::websocket(([127, 0, 0, 1], 0)).limits(limits);
/// ```
///
/// | limit | default | effect beyond it |
/// |---|---|---|
/// | [`connections`](Self::connections) | 256 | a new client receives an error that the server is full |
/// | [`waiting`](Self::waiting) | 64 | the oldest waiting connection of the client with the most of them is closed |
/// | [`handshake`](Self::handshake) | 10 s | the connection is closed |
/// | [`message`](Self::message) | 1 GiB | the session is closed, and the server logs the reason |
/// | [`messages_per_second`](Self::messages_per_second) | 50,000 | the client waits, and nothing is lost |
///
/// Before its token, a connection can send at most 64 KiB, independent of these limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub(super) connections: usize,
    pub(super) waiting: usize,
    pub(super) handshake: Duration,
    pub(super) message: Option<u64>,
    pub(super) messages_per_second: Option<u32>,
}

/// The size of the largest message that Burn reads.
const LARGEST: u64 = 1 << 30;

/// The default number of messages per second. It is some five times the rate of a client that waits for each answer.
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
    /// Sets the maximum number of connections with the token at the same time. Over a WebSocket, each session is a
    /// connection: one for each device that a [`connect`](super::connect) returned. Over Iroh, each client program is a
    /// connection, with up to 100 sessions.
    pub fn connections(mut self, most: usize) -> Self {
        self.connections = most;
        self
    }

    /// Sets the maximum number of connections that may wait at the same time without having presented the token.
    pub fn waiting(mut self, most: usize) -> Self {
        self.waiting = most;
        self
    }

    /// Sets the maximum time from a connection's first byte to its token. Another server that fetches tensors has no
    /// token. It has six times as long until it names an existing tensor.
    pub fn handshake(mut self, longest: Duration) -> Self {
        self.handshake = longest;
        self
    }

    /// Sets the maximum size of a client's message in bytes, 64 KiB to 1 GiB. It applies only over a WebSocket. Weights
    /// are sent in messages, so a tensor that is sent whole must fit. Besides, a message has at most two million values, such
    /// as tasks and their numbers, because each takes some 130 bytes of the server; the bytes of a tensor are one value.
    pub fn message(mut self, bytes: u64) -> Self {
        self.message = Some(bytes);
        self
    }

    /// Sets the maximum number of messages per second of a connection. It applies only over a WebSocket.
    pub fn messages_per_second(mut self, most: u32) -> Self {
        self.messages_per_second = Some(most);
        self
    }

    /// Returns the time in which another server has to name an existing tensor. The tensor may have to be computed
    /// first.
    pub(super) fn first_tensor(&self) -> Duration {
        self.handshake.saturating_mul(6)
    }

    pub(super) fn largest_message(&self) -> u64 {
        self.message.unwrap_or(LARGEST)
    }

    pub(super) fn rate(&self) -> u32 {
        self.messages_per_second.unwrap_or(RATE)
    }

    /// Returns an error for limits that let no client in, or that Burn does not support.
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

/// The maximum number of bytes of a connection before its token.
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
