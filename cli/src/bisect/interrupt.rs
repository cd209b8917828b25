//! Ctrl-C, and other wishes that the search ends.
//!
//! The command runs in a group of its own, so that all that it started can be ended with it. A terminal's
//! Ctrl-C therefore reaches this program alone, and so does `kill`; both hand the signal on.

use signal_hook::consts::{SIGINT, SIGTERM};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Signals that ask this program to end.
#[derive(Debug)]
pub struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// From now on they are kept here in place of ending the program.
    ///
    /// # Errors
    /// The system refuses.
    pub fn listen() -> std::io::Result<Self> {
        let arrived = Arc::new(AtomicUsize::new(0));
        for signal in wanted() {
            signal_hook::flag::register_usize(signal, Arc::clone(&arrived), signal as usize)?;
        }
        Ok(Self(arrived))
    }

    /// The last signal that arrived since this was asked.
    pub fn take(&self) -> Option<i32> {
        match self.0.swap(0, Ordering::SeqCst) {
            0 => None,
            signal => Some(signal as i32),
        }
    }
}

fn wanted() -> Vec<i32> {
    #[cfg(unix)]
    {
        use std::io::IsTerminal;
        // A terminal that closes. `nohup`, after which it has no meaning, takes the terminal away.
        if std::io::stderr().is_terminal() {
            return vec![SIGINT, SIGTERM, signal_hook::consts::SIGHUP];
        }
    }
    vec![SIGINT, SIGTERM]
}

/// The search ended because somebody wanted it to.
#[derive(Debug, thiserror::Error)]
#[error(
    "interrupted by {} {}; the search is not finished, so no site is named",
    name(*.signal),
    when(*.run)
)]
pub struct Interrupted {
    /// The signal.
    pub signal: i32,
    /// The number of the run that it ended; 0 between two.
    pub run: usize,
}

impl Interrupted {
    /// The exit code that shells give to a program that a signal ended.
    pub fn exit_code(&self) -> u8 {
        u8::try_from(128 + self.signal).unwrap_or(1)
    }
}

fn when(run: usize) -> String {
    match run {
        0 => "between two runs".to_owned(),
        run => format!("in run {run}, whose command was ended"),
    }
}

fn name(signal: i32) -> String {
    match signal {
        SIGINT => "Ctrl-C (SIGINT)".to_owned(),
        SIGTERM => "SIGTERM".to_owned(),
        other => format!("signal {other}"),
    }
}

/// Hands a signal to a command and all that it started. That there is nobody left is no error.
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

/// Ends a command and, where the system can, what it started.
pub fn end(child: &mut Child) -> std::io::Result<()> {
    #[cfg(unix)]
    pass_on(child, signal_hook::consts::SIGKILL);
    // An error here says that it has ended meanwhile.
    let _ = child.kill();
    child.wait().map(drop)
}
