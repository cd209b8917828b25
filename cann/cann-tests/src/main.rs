//! The program `kernels` with the features of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    kernels_cli::main()
}
