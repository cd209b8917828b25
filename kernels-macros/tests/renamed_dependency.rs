//! A crate that depends on burn-kernels under another name needs no `crate = ..`.

use std::path::Path;
use std::process::Command;

#[test]
fn a_renamed_dependency_is_found() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/renamed/Cargo.toml");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("renamed");
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--locked", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(target)
        .status()
        .expect("cargo starts");
    assert!(status.success());
}
