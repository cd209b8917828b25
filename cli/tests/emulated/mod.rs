//! Programs and tests that run on the emulator of CANN.
#![allow(dead_code, reason = "each test file uses a part of it")]

use crate::common::{command, errors};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Returns a folder with the emulator under CANN's names. The first call creates it.
pub fn emulator(folder: &Path) -> PathBuf {
    let made = folder.join("cann");
    if made.exists() {
        return made;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_kernels"));
    let built = program.with_file_name("libcann_emulator.so");
    let built = match built.exists() {
        true => built,
        false => program.with_file_name("deps").join("libcann_emulator.so"),
    };
    std::fs::create_dir_all(&made).unwrap();
    for name in [
        "libascendcl.so",
        "libnnopbase.so",
        "libopapi.so",
        "libhccl.so",
    ] {
        std::os::unix::fs::symlink(&built, made.join(name)).unwrap();
    }
    made
}

/// Returns a command of the program on the emulator.
pub fn program(cann: &Path) -> Command {
    on_npu(command(), cann)
}

/// Runs a command on the emulator. No operation may run on the host, and a command that hangs ends with exit code 124.
pub fn on_npu(command: Command, cann: &Path) -> Command {
    let mut limited = Command::new("timeout");
    limited.arg("240").arg(command.get_program());
    limited.args(command.get_args());
    limited.env_remove("BURN_KERNELS");
    limited.env("CANN_LIB_DIR", cann);
    limited.env_remove("BURN_KERNELS_VERIFY");
    limited.env("BURN_CANN_FALLBACK", "deny");
    limited
}

/// The environment variable of a process of this test program that runs on the emulator.
pub const INSIDE: &str = "KERNELS_NPU_TEST";

/// Runs the test `name` in a process of its own, with the emulator's NPUs and these settings.
pub fn alone(name: &str, settings: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        body();
        println!("the test is at its end");
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut own = Command::new(std::env::current_exe().unwrap());
    own.args([name, "--exact", "--nocapture"]);
    let mut own = on_npu(own, &emulator(folder.path()));
    own.env(INSIDE, "1").envs(settings.iter().copied());
    let result = own.output().unwrap();
    let said = String::from_utf8_lossy(&result.stdout).into_owned() + &errors(&result);
    assert!(result.status.success(), "{settings:?}: {said}");
    assert!(said.contains("the test is at its end"), "{said}");
}
