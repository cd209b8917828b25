//! The instructions of this processor, in words.

use burn_kernels::dispatch::x86_64_level;

/// Returns the level of this processor, such as `x86-64-v4`, or its architecture.
pub fn level() -> String {
    match std::env::consts::ARCH {
        "x86_64" => format!("x86-64-v{}", x86_64_level()),
        other => other.to_owned(),
    }
}
