//! A process of its own for a test whose state can't be taken back: what was said once, a subscriber, a first layer.

use std::process::{Command, Output};

const MARK: &str = "IN_A_PROCESS_OF_ITS_OWN";

/// Returns `true` in a process that [`alone`] started.
pub fn is_own() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Runs a test of this program, `module::function`, in a process of its own.
///
/// # Panics
/// Panics if the test fails, and if this program has no such test.
pub fn alone(test: &str) -> Output {
    let this = std::env::current_exe().unwrap();
    let output = Command::new(this)
        .args([test, "--exact", "--nocapture"])
        .env(MARK, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains(" 1 passed;"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
