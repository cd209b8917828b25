//! The memory that a session holds, and its limit.

use bytesize::ByteSize;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The memory of a device, which its sessions share.
#[derive(Debug)]
pub(in crate::remote) struct Limits {
    /// The limit of one session, in bytes.
    session: usize,
    /// The limit of all sessions together, in bytes.
    all: usize,
    held: AtomicUsize,
}

/// The memory of one session.
#[derive(Debug)]
pub(in crate::remote) struct Account {
    limits: Arc<Limits>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The bytes of buffers and of reservations.
    held: usize,
    /// The number of views of each buffer, and its bytes. Views share a buffer, which counts once.
    buffers: HashMap<usize, (usize, usize)>,
}

/// The reason why an operation is not run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Exceeded {
    #[error(
        "it needs {} more, the session holds {}, and {} are a session's limit. Free tensors or work in smaller \
         parts; `kernels serve --max-session-memory` sets the limit",
        size(*asked), size(*held), size(*limit)
    )]
    Session {
        asked: usize,
        held: usize,
        limit: usize,
    },
    #[error(
        "it needs {} more, all sessions of the device hold {} together, and {} are what it has for them. Try \
         again when others have ended",
        size(*asked), size(*held), size(*limit)
    )]
    All {
        asked: usize,
        held: usize,
        limit: usize,
    },
    #[error(
        "it makes a view that shows {}, and {} are a session's limit. Nothing could be done with it; work in \
         smaller parts, or set the limit by `kernels serve --max-session-memory`",
        size(*shown), size(*limit)
    )]
    View { shown: usize, limit: usize },
    #[error(
        "its shapes have more bytes than a machine can address. Look at the sizes that were asked for"
    )]
    Absurd,
}

/// Returns a size in readable units and in bytes.
fn size(bytes: usize) -> String {
    format!("{} ({bytes} bytes)", ByteSize(bytes as u64).display().iec())
}

impl Limits {
    pub(in crate::remote) fn new(session: usize, all: usize) -> Arc<Self> {
        Arc::new(Self {
            session,
            all,
            held: AtomicUsize::new(0),
        })
    }

    fn take(&self, asked: usize) -> Result<(), Exceeded> {
        let taken = self
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                let held = held.checked_add(asked)?;
                (held <= self.all).then_some(held)
            });
        taken.map(drop).map_err(|held| Exceeded::All {
            asked,
            held,
            limit: self.all,
        })
    }
}

/// A buffer of a session. When its last view is dropped, the bytes are released.
#[derive(Debug)]
pub(super) struct Charge {
    account: Arc<Account>,
    buffer: usize,
}

/// The bytes that an operation may use while it runs.
#[derive(Debug)]
pub(in crate::remote) struct Reserved {
    account: Arc<Account>,
    bytes: usize,
}

impl Account {
    pub(super) fn new(limits: &Arc<Limits>) -> Arc<Self> {
        Arc::new(Self {
            limits: Arc::clone(limits),
            state: Mutex::default(),
        })
    }

    pub(super) fn is_of(&self, limits: &Arc<Limits>) -> bool {
        Arc::ptr_eq(&self.limits, limits)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an error if a view may not show this many bytes.
    pub(super) fn allow_view(&self, shown: usize) -> Result<(), Exceeded> {
        let limit = self.limits.session;
        if shown > limit {
            return Err(Exceeded::View { shown, limit });
        }
        Ok(())
    }

    /// Reserves bytes for an operation.
    pub(super) fn reserve(self: &Arc<Self>, asked: usize) -> Result<Reserved, Exceeded> {
        let mut state = self.state();
        let limit = self.limits.session;
        let held = state.held;
        match held.checked_add(asked) {
            Some(sum) if sum <= limit => {
                self.limits.take(asked)?;
                state.held = sum;
            }
            _ => return Err(Exceeded::Session { asked, held, limit }),
        }
        drop(state);
        Ok(Reserved {
            account: Arc::clone(self),
            bytes: asked,
        })
    }

    /// Counts an existing buffer, even beyond the limit. [`Account::settle`] checks the limit.
    pub(super) fn charge(self: &Arc<Self>, buffer: usize, bytes: usize) -> Charge {
        let mut state = self.state();
        let (views, counted) = state.buffers.entry(buffer).or_default();
        *views += 1;
        // A read that is about to end may have released another buffer at this address a moment ago.
        let more = bytes.saturating_sub(*counted);
        *counted += more;
        state.held += more;
        self.limits.held.fetch_add(more, Ordering::Relaxed);
        drop(state);
        Charge {
            account: Arc::clone(self),
            buffer,
        }
    }

    /// Returns an error if the session is above its limit after an operation.
    pub(super) fn settle(&self) -> Result<(), Exceeded> {
        let (held, limit) = (self.state().held, self.limits.session);
        if held > limit {
            let asked = 0;
            return Err(Exceeded::Session { asked, held, limit });
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.state().held
    }
}

impl Charge {
    pub(super) fn account(&self) -> Arc<Account> {
        Arc::clone(&self.account)
    }

    pub(super) fn limits(&self) -> Arc<Limits> {
        Arc::clone(&self.account.limits)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut state = self.account.state();
        let Entry::Occupied(mut known) = state.buffers.entry(self.buffer) else {
            unreachable!("a buffer is counted until its last charge")
        };
        known.get_mut().0 -= 1;
        if known.get().0 == 0 {
            let (_, bytes) = known.remove();
            state.held -= bytes;
            self.account.limits.held.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.account.state().held -= self.bytes;
        let held = &self.account.limits.held;
        held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_counts_once_and_until_its_last_view() {
        let account = Account::new(&Limits::new(100, 150));
        let first = account.charge(7, 60);
        let view = account.charge(7, 60);
        assert_eq!(account.held(), 60);
        drop(first);
        assert_eq!(account.held(), 60);
        let refused = account.reserve(41).unwrap_err();
        let (asked, held, limit) = (41, 60, 100);
        assert_eq!(refused, Exceeded::Session { asked, held, limit });
        assert_eq!(account.held(), 60);
        drop(view);
        assert_eq!(account.held(), 0);
        let reserved = account.reserve(100).unwrap();
        account.reserve(1).unwrap_err();
        drop(reserved);
        account.reserve(usize::MAX).unwrap_err();
        account.allow_view(100).unwrap();
        account.allow_view(101).unwrap_err();
    }

    #[test]
    fn sessions_share_what_the_device_has() {
        let limits = Limits::new(100, 150);
        let (one, other) = (Account::new(&limits), Account::new(&limits));
        let held = one.charge(1, 90);
        let refused = other.reserve(70).unwrap_err();
        assert!(
            matches!(refused, Exceeded::All { limit: 150, .. }),
            "{refused}"
        );
        assert_eq!(other.held(), 0);
        drop(held);
        other.reserve(70).unwrap();
    }

    #[test]
    fn a_refusal_names_what_was_asked_and_the_limit() {
        let limit = 4 << 30;
        let refused = Exceeded::Session {
            asked: 8 << 30,
            held: 0,
            limit,
        }
        .to_string();
        for part in ["8.0 GiB", "8589934592", "4.0 GiB", "--max-session-memory"] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
