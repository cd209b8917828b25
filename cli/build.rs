//! Determines the versions that `kernels doctor` shows, of the compiler and of Burn in the lock file, and how much this
//! build is optimised.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=KERNELS_RUSTC={}", rustc());
    println!("cargo:rustc-env=KERNELS_BURN={}", burn());
    let level = std::env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo:rustc-env=KERNELS_OPT_LEVEL={level}");
}

fn rustc() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("--version").output();
    let text = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_default()
}

/// Returns the version of Burn in the lock file of the package or of its parent folder.
fn burn() -> String {
    let folder = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut files = folder
        .ancestors()
        .take(2)
        .map(|folder| folder.join("Cargo.lock"));
    let Some(file) = files.find(|file| file.exists()) else {
        return String::new();
    };
    println!("cargo:rerun-if-changed={}", file.display());
    locked(&file, "burn").unwrap_or_default()
}

fn locked(file: &Path, package: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut lines = text.lines();
    lines.find(|line| *line == format!("name = \"{package}\""))?;
    let version = lines.next()?.strip_prefix("version = ")?;
    Some(version.trim_matches('"').to_owned())
}
