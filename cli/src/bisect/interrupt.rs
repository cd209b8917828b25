//! Handling of Ctrl-C and other signals that ask the search to end.
//!
//! The command runs in a process group of its own, so that everything it started can be ended with it. Ctrl-C in a
//! terminal and `kill` therefore reach only this program, which passes the signal on.

use crate::signals::{exit_code, name, wanted};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Signals that ask this program to end.
#[derive(Debug)]
pub struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// Collects these signals from now on. They no longer end the program.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub fn listen() -> std::io::Result<Self> {
        let arrived = Arc::new(AtomicUsize::new(0));
        for signal in wanted() {
            signal_hook::flag::register_usize(signal, Arc::clone(&arrived), signal as usize)?;
        }
        Ok(Self(arrived))
    }

    /// Returns the last signal since the previous call.
    pub fn take(&self) -> Option<i32> {
        match self.0.swap(0, Ordering::SeqCst) {
            0 => None,
            signal => Some(signal as i32),
        }
    }
}

/// An interruption of the search by a signal.
#[derive(Debug, thiserror::Error)]
#[error(
    "interrupted by {} {}; the search is not finished, so no site is named",
    name(*.signal),
    when(*.run)
)]
pub struct Interrupted {
    /// The signal.
    pub signal: i32,
    /// The number of the run that the signal ended, or 0 between two runs.
    pub run: usize,
}

impl Interrupted {
    /// Returns the exit code that shells use for a program ended by this signal.
    pub fn exit_code(&self) -> u8 {
        exit_code(self.signal)
    }
}

fn when(run: usize) -> String {
    match run {
        0 => "between two runs".to_owned(),
        run => format!("in run {run}, whose command was ended"),
    }
}

/// Sends a signal to a command and everything it started. Ignores processes that have already ended.
pub fn pass_on(child: &Child, signal: i32) {
    #[cfg(unix)]
    {
        use rustix::process::{Pid, Signal, kill_process_group};
        let group = Pid::from_child(child);
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = kill_process_group(group, signal);
        }
    }
    #[cfg(not(unix))]
    let _ = (child, signal);
}

/// Ends a command and, where the system supports it, everything it started.
pub fn end(child: &mut Child) -> std::io::Result<()> {
    #[cfg(unix)]
    pass_on(child, signal_hook::consts::SIGKILL);
    // An error means that the process has already ended.
    let _ = child.kill();
    child.wait().map(drop)
}
