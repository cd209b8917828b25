//! The connections that have not presented a token yet.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// A bounded line of connections, each with a client: an address or an Iroh endpoint.
///
/// A flood must not keep other clients out. A full line therefore does not refuse the next connection. It closes the
/// oldest connection of the client with the most of them. A client that presents its token at once has left the line by
/// then.
#[derive(Debug)]
pub(in crate::remote) struct Waiting<K> {
    most: usize,
    line: Mutex<Line<K>>,
}

#[derive(Debug)]
struct Line<K> {
    next: u64,
    places: BTreeMap<u64, (K, oneshot::Sender<()>)>,
}

/// A place in the line. Dropping it leaves the line.
#[derive(Debug)]
pub(in crate::remote) struct Place<K: Copy + Eq + Hash> {
    waiting: Arc<Waiting<K>>,
    number: u64,
    lost: oneshot::Receiver<()>,
}

impl<K: Copy + Eq + Hash> Waiting<K> {
    pub(in crate::remote) fn new(most: usize) -> Arc<Self> {
        let line = Line {
            next: 0,
            places: BTreeMap::new(),
        };
        Arc::new(Self {
            most,
            line: Mutex::new(line),
        })
    }

    fn line(&self) -> MutexGuard<'_, Line<K>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters the line at its end. Another connection may lose its place.
    pub(in crate::remote) fn enter(self: &Arc<Self>, who: K) -> Place<K> {
        let mut line = self.line();
        while line.places.len() >= self.most {
            line.close_one();
        }
        let number = line.next;
        line.next += 1;
        let (keep, lost) = oneshot::channel();
        line.places.insert(number, (who, keep));
        Place {
            waiting: Arc::clone(self),
            number,
            lost,
        }
    }
}

impl<K: Copy + Eq + Hash> Line<K> {
    fn close_one(&mut self) {
        let mut counts = HashMap::new();
        for (who, _) in self.places.values() {
            *counts.entry(*who).or_insert(0_usize) += 1;
        }
        let most = counts.values().copied().max();
        let oldest = self
            .places
            .iter()
            .find_map(|(number, (who, _))| (counts.get(who).copied() == most).then_some(*number));
        if let Some(number) = oldest {
            self.places.remove(&number);
        }
    }
}

impl<K: Copy + Eq + Hash> Place<K> {
    /// Returns when the place was given to another connection.
    pub(in crate::remote) async fn lost(&mut self) {
        // Nothing is ever sent. The sender is dropped with the place.
        let _ = (&mut self.lost).await;
    }
}

impl<K: Copy + Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        self.waiting.line().places.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_lost(place: &mut Place<char>) -> bool {
        place.lost.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn a_full_line_closes_the_oldest_of_whoever_has_most() {
        let waiting = Waiting::new(4);
        let mut places: Vec<_> = ['a', 'b', 'b', 'b'].map(|who| waiting.enter(who)).into();
        places.push(waiting.enter('c'));
        let lost: Vec<_> = places.iter_mut().map(is_lost).collect();
        assert_eq!(lost, [false, true, false, false, false]);
        // A client that left makes room for the next.
        places.remove(2);
        places.push(waiting.enter('d'));
        let lost: Vec<_> = places.iter_mut().map(is_lost).collect();
        assert_eq!(lost, [false, true, false, false, false]);
        // Among equals, the oldest is closed.
        places.push(waiting.enter('d'));
        assert!(is_lost(&mut places[0]));
        drop(places);
        assert!(waiting.line().places.is_empty());
    }
}
