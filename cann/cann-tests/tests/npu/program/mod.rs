//! The program on the emulator, and NPUs as devices of this process.

mod commands;
mod devices;
mod doctor;
mod experts;
mod kept_back;
mod models;
mod parts;
mod plans;
mod softcap;

use crate::npu::common::Scenario;
use std::path::Path;
use std::process::{Command, Output};

/// Returns a command of the program that finds CANN in this folder. No operation may run on the host, and a command that
/// hangs ends with exit code 124.
fn program(cann: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["240", env!("CARGO_BIN_EXE_kernels-on-npu")]);
    for name in [
        "BURN_KERNELS",
        "BURN_KERNELS_VERIFY",
        "COLUMNS",
        "NO_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
    ] {
        command.env_remove(name);
    }
    command
        .env("CANN_LIB_DIR", cann)
        .env("BURN_CANN_FALLBACK", "deny");
    command
}

/// Returns what a command wrote to standard error.
fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs the calling test in a process of its own, with the emulator's NPUs and these settings.
fn alone(settings: &[(&'static str, &str)], body: impl FnOnce()) {
    let scenario = Scenario::new().set("BURN_CANN_FALLBACK", "deny");
    let set = |scenario: Scenario, &(name, value): &(&'static str, &str)| scenario.set(name, value);
    settings.iter().fold(scenario, set).alone(body);
}
