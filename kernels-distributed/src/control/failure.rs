//! The end of a group by the loss of a rank: the first error counts, and everything that waits learns of it.

use crate::options::{LOSS_STATUS, Options};
use crate::{Error, ErrorKind};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Failure {
    /// Equal to whether `state` has an error, for loops that can't wait for a lock.
    failed: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    error: Option<Error>,
    /// The process has left the group, so that no error ends it any more.
    over: bool,
}

impl Failure {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the first error. Returns whether this was it.
    pub(crate) fn set(&self, problem: String) -> bool {
        let mut state = self.lock();
        if state.error.is_some() || state.over {
            return false;
        }
        state.error = Some(Error::new(ErrorKind::Lost, problem));
        self.failed.store(true, Ordering::Release);
        self.changed.notify_all();
        true
    }

    pub(crate) fn is_set(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(crate) fn error(&self) -> Option<Error> {
        self.lock().error.clone()
    }

    /// Notes that the process leaves the group.
    pub(crate) fn end(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }

    /// Watches that the process leaves the group soon after an error. A process that waits elsewhere, such as inside a
    /// library, is ended.
    pub(crate) fn watch(self: &Arc<Self>, options: &Options) {
        let (failure, options) = (self.clone(), options.clone());
        thread::spawn(move || {
            if let Some(error) = failure.outlasts(options.timeout / 4) {
                match &options.on_loss {
                    Some(on_loss) => on_loss(&error),
                    None => end_process(&error),
                }
            }
        });
    }

    /// Waits for an error and then for the end of the group. Returns the error if the group still exists after `grace`.
    fn outlasts(&self, grace: Duration) -> Option<Error> {
        let state = self.lock();
        let state = self
            .changed
            .wait_while(state, |state| state.error.is_none() && !state.over);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        let (state, _) = self
            .changed
            .wait_timeout_while(state, grace, |state| !state.over)
            .unwrap_or_else(PoisonError::into_inner);
        if state.over {
            None
        } else {
            state.error.clone()
        }
    }
}

/// Prints the error and ends the process at once. Handlers of a library's exit could wait for the lost rank.
fn end_process(error: &Error) {
    // In one piece, because other ranks write to the same place. Its reader may be gone, so that errors are ignored.
    let _ = std::io::stderr().write_all(format!("error: {error}\n").as_bytes());
    let _ = std::io::stdout().flush();
    exit_now(LOSS_STATUS)
}

#[cfg(unix)]
fn exit_now(status: i32) -> ! {
    // SAFETY: `_exit` takes any status and runs no code of this process.
    unsafe { libc::_exit(status) }
}

#[cfg(not(unix))]
fn exit_now(status: i32) -> ! {
    std::process::exit(status)
}
