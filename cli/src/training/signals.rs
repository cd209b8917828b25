//! Ctrl-C and other signals while a run trains: the first is noticed between two steps, a second ends the program at
//! once.

use crate::signals::{exit_code, wanted};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// From now on, a file that grows beyond the limit of its process is an error of writing, and no longer ends the program.
///
/// # Errors
/// Returns an error if the system refuses.
pub fn survive_limits() -> io::Result<()> {
    #[cfg(unix)]
    flag::register(signal_hook::consts::signal::SIGXFSZ, Arc::default())?;
    Ok(())
}

/// The signals that arrived since a run began to train.
pub struct Signals {
    last: Arc<AtomicUsize>,
    /// True if the next signal ends the program at once.
    leaves: Arc<AtomicBool>,
}

impl Signals {
    /// Collects signals from now on.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub fn listen() -> io::Result<Self> {
        let signals = Self {
            last: Arc::default(),
            leaves: Arc::default(),
        };
        for signal in wanted() {
            // Handlers run in this order, so the first signal only sets the flag.
            let code = i32::from(exit_code(signal));
            flag::register_conditional_shutdown(signal, code, Arc::clone(&signals.leaves))?;
            flag::register(signal, Arc::clone(&signals.leaves))?;
            flag::register_usize(signal, Arc::clone(&signals.last), signal as usize)?;
        }
        Ok(signals)
    }

    /// Returns the signal that asks the run to end, if there was one.
    pub fn asked(&self) -> Option<i32> {
        match self.last.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(signal as i32),
        }
    }

    /// From now on, the first signal ends the program at once.
    pub fn leave_at_once(&self) {
        self.leaves.store(true, Ordering::SeqCst);
    }
}
