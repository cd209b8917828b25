//! The signals that ask this program to end.

use signal_hook::consts::{SIGINT, SIGTERM};

/// Returns the signals that a command answers to in its own way.
pub fn wanted() -> Vec<i32> {
    #[cfg(unix)]
    {
        use std::io::IsTerminal;
        // SIGHUP comes when a terminal is closed. `nohup`, which disables it, also detaches standard error from the
        // terminal.
        if std::io::stderr().is_terminal() {
            return vec![SIGINT, SIGTERM, signal_hook::consts::SIGHUP];
        }
    }
    vec![SIGINT, SIGTERM]
}

/// Returns the exit code that shells use for a program ended by this signal.
pub fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(1)
}

/// Returns the name of a signal for people.
pub fn name(signal: i32) -> String {
    match signal {
        SIGINT => "Ctrl-C (SIGINT)".to_owned(),
        SIGTERM => "SIGTERM".to_owned(),
        other => format!("signal {other}"),
    }
}
