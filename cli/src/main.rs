//! The `kernels` program: trains and runs models whose layers dispatch to fused kernels, and shows which kernel runs
//! where.
//!
//! Results go to standard output, everything else to standard error. The exit code is 0 on success, 1 on a failure, 2
//! on wrong usage, and after a signal 128 and its number: 130 after Ctrl-C in `train`, `finetune`, `bisect` and
//! `generate`. Each command is in a file of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    kernels_cli::main()
}
