//! The sessions of a server: their number, and the reasons why they ended.
//!
//! Burn runs a session on its own thread and ends it when an operation of the backend panics. It tells the client only
//! that the session ended. The thread therefore remembers its session, a panic hook keeps the message of the panic, and
//! the client can ask for it in a new session.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

/// A session, stored on its thread.
struct Session {
    number: u64,
    open: Arc<AtomicUsize>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        lock(&HERE).remove(&self.number);
    }
}

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// The number of endings that are remembered, and the maximum bytes of each.
const REMEMBERED: (usize, usize) = (64, 8 << 10);

static ENDINGS: Mutex<VecDeque<(u64, String)>> = Mutex::new(VecDeque::new());

/// The sessions of servers in this process.
static HERE: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Assigns session `number` to this thread until the thread ends.
pub fn open(number: u64, open: &Arc<AtomicUsize>) {
    listen();
    open.fetch_add(1, Ordering::Relaxed);
    lock(&HERE).insert(number);
    let session = Session {
        number,
        open: Arc::clone(open),
    };
    // The previous session, if there was one, removes itself from the count.
    SESSION.with_borrow_mut(|place| *place = Some(session));
}

/// Returns `true` if a server of this process runs the session.
pub(super) fn is_here(number: u64) -> bool {
    lock(&HERE).contains(&number)
}

/// Returns the message of the last panic of a session of this process.
pub fn ending(number: u64) -> Option<String> {
    let endings = lock(&ENDINGS);
    let mut newest = endings.iter().rev();
    newest
        .find(|(session, _)| *session == number)
        .map(|(_, what)| what.clone())
}

/// Extends the panic hook. The addition has no effect on other threads.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            before(panic);
            let number = SESSION.try_with(|session| {
                let session = session.try_borrow().ok()?;
                session.as_ref().map(|session| session.number)
            });
            if let Ok(Some(number)) = number {
                remember(number, message(panic.payload()));
            }
        }));
    });
}

/// Returns the message of a panic.
pub fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
}

/// Stores the message, shortened if necessary, because a client may have chosen a part of it.
fn remember(number: u64, what: &str) {
    let (endings, bytes) = REMEMBERED;
    let what = kernels_io::shorten(what, bytes).into_owned();
    let mut remembered = lock(&ENDINGS);
    if remembered.len() == endings {
        remembered.pop_front();
    }
    remembered.push_back((number, what));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_counts_while_its_thread_runs_and_leaves_its_panic() {
        let count = Arc::new(AtomicUsize::new(0));
        let number = super::super::credential::unique();
        let panicked = std::thread::scope(|scope| {
            let session = scope.spawn(|| {
                open(number, &count);
                assert_eq!(count.load(Ordering::Relaxed), 1);
                assert!(is_here(number));
                panic!("out of memory: 7 bytes");
            });
            session.join().is_err()
        });
        assert!(panicked);
        assert_eq!(ending(number).unwrap(), "out of memory: 7 bytes");
        assert_eq!(ending(number.wrapping_add(1)), None);
        assert!(!is_here(number));
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn no_more_of_an_ending_is_remembered_than_is_read() {
        let number = super::super::credential::unique();
        remember(number, &"x".repeat(1 << 20));
        let what = ending(number).unwrap();
        assert!(what.len() < 9 << 10, "{} bytes", what.len());
        assert!(what.ends_with("(1048576 bytes)"));
    }
}
