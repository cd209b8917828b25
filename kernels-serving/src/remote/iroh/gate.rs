//! The gate before Burn's handler of Iroh connections. It decides which endpoints are let in, and limits connections
//! before they present the token.
//!
//! Burn reads the streams of a connection itself, up to 1 GiB before it asks for the credential. The gate can't read
//! them first. It lets in listed endpoints, counts connections, and watches those that have not presented the token. A
//! connection that sends more than a handshake needs, or takes too long, is closed. The gate checks this at intervals
//! of [`EVERY`], so data that arrives between two checks is read.

use super::super::limits::{BEFORE_TOKEN, Limits};
use super::super::relay::{Place, Waiting};
use super::is_listed;
use burn::remote::EndpointId;
use iroh::endpoint::Connection;
use iroh::protocol::{AcceptError, DynProtocolHandler, ProtocolHandler};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// The pause between two checks of a connection without a token.
const EVERY: Duration = Duration::from_millis(10);

/// The maximum number of bytes of a connection before its token, including QUIC's handshake and path probes.
const BEFORE: u64 = 2 * BEFORE_TOKEN as u64;

/// The rules for the endpoints that are let in.
#[derive(Clone, Debug, Default)]
pub(in crate::remote) struct Rules {
    /// The listed endpoints. If the list is empty, all endpoints are let in.
    pub(in crate::remote) endpoints: Vec<EndpointId>,
    /// True if listed endpoints may stay without a token, like servers that fetch tensors.
    pub(in crate::remote) transfers: bool,
}

/// The connected endpoints, and whether they have presented the token.
#[derive(Debug, Default)]
pub(in crate::remote) struct Known(Mutex<HashMap<EndpointId, Endpoint>>);

#[derive(Debug, Default)]
struct Endpoint {
    connections: usize,
    has_token: bool,
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, HashMap<EndpointId, Endpoint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that an endpoint presented the token. Iroh authenticates endpoints.
    pub(in crate::remote) fn has_token(&self, id: EndpointId) {
        if let Some(endpoint) = self.lock().get_mut(&id) {
            endpoint.has_token = true;
        }
    }
}

/// A connection that is open.
struct Connected<'a> {
    known: &'a Known,
    id: EndpointId,
}

impl<'a> Connected<'a> {
    fn new(known: &'a Known, id: EndpointId) -> Self {
        known.lock().entry(id).or_default().connections += 1;
        Self { known, id }
    }

    fn has_token(&self) -> bool {
        let known = self.known.lock();
        known
            .get(&self.id)
            .is_some_and(|endpoint| endpoint.has_token)
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        let mut known = self.known.lock();
        if let Some(endpoint) = known.get_mut(&self.id) {
            endpoint.connections -= 1;
            if endpoint.connections == 0 {
                known.remove(&self.id);
            }
        }
    }
}

/// The gate before Burn's handler.
#[derive(Debug)]
pub(super) struct Gate {
    burn: Box<dyn DynProtocolHandler>,
    rules: Rules,
    limits: Limits,
    known: Arc<Known>,
    waiting: Arc<Waiting<EndpointId>>,
    connections: Semaphore,
}

impl Gate {
    pub(super) fn new(
        burn: Box<dyn DynProtocolHandler>,
        rules: Rules,
        limits: Limits,
        known: Arc<Known>,
    ) -> Self {
        Self {
            burn,
            rules,
            limits,
            known,
            waiting: Waiting::new(limits.waiting),
            connections: Semaphore::new(limits.connections),
        }
    }

    /// Waits for the token. Returns the reason for closing the connection if the token does not arrive.
    async fn token(
        &self,
        connection: &Connection,
        connected: &Connected<'_>,
        place: &mut Place<EndpointId>,
    ) -> Result<(), &'static str> {
        let looks = async {
            let mut every = tokio::time::interval(EVERY);
            loop {
                every.tick().await;
                if connected.has_token() {
                    return Ok(());
                }
                if connection.stats().udp_rx.bytes > BEFORE {
                    return Err("more than a handshake came without a token");
                }
            }
        };
        tokio::select! {
            looked = tokio::time::timeout(self.limits.handshake, looks) => {
                looked.unwrap_or(Err("no token came in time"))
            }
            () = place.lost() => Err("too many connections wait for their token"),
        }
    }
}

impl ProtocolHandler for Gate {
    async fn accept(&self, connection: Connection) -> Result<(), AcceptError> {
        let id = connection.remote_id();
        let close = |why: &str| {
            tracing::warn!("the Iroh endpoint {id} was closed: {why}");
            connection.close(1_u8.into(), why.as_bytes());
        };
        if !is_listed(&self.rules.endpoints, id) {
            close(&format!(
                "{id} is not one of the endpoints that are let in (`--allow-endpoint`)"
            ));
            return Ok(());
        }
        let connected = Connected::new(&self.known, id);
        let mut serving = self.burn.accept(connection.clone());
        let is_trusted = self.rules.transfers && !self.rules.endpoints.is_empty();
        if !is_trusted {
            let mut place = self.waiting.enter(id);
            let token = tokio::select! {
                ended = &mut serving => return ended,
                token = self.token(&connection, &connected, &mut place) => token,
            };
            if let Err(why) = token {
                close(why);
                return Ok(());
            }
        }
        let Ok(_permit) = self.connections.try_acquire() else {
            close("the server has as many connections as it may have; see --max-connections");
            return Ok(());
        };
        serving.await
    }

    async fn shutdown(&self) {
        self.burn.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::server::IrohIdentity;

    #[test]
    fn an_endpoint_is_known_as_long_as_it_is_connected() {
        let known = Known::default();
        let id = IrohIdentity::random().id();
        // The gate forgets an endpoint when it has no more connections.
        known.has_token(id);
        let first = Connected::new(&known, id);
        assert!(!first.has_token());
        let second = Connected::new(&known, id);
        known.has_token(id);
        drop(first);
        assert!(second.has_token());
        drop(second);
        assert!(!Connected::new(&known, id).has_token());
        assert!(known.lock().is_empty());
    }

    #[test]
    fn an_empty_list_lists_everybody() {
        let ids: Vec<_> = (0..2).map(|_| IrohIdentity::random().id()).collect();
        assert!(is_listed(&[], ids[0]) && is_listed(&ids[..1], ids[0]));
        assert!(!is_listed(&ids[..1], ids[1]));
    }
}
