//! Tests of `kernels doctor`. Those on emulated NPUs are in `cann/cann-tests`.

use crate::common::{command, errors};
use serde_json::Value;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

/// Runs the doctor so that it finds CANN only in `folder`.
fn doctor(folder: &Path, args: &[&str]) -> Output {
    let mut command = command();
    command.arg("doctor").args(args).env("CANN_LIB_DIR", folder);
    command.output().expect("the program starts")
}

fn json(folder: &Path) -> Value {
    let output = doctor(folder, &["--json"]);
    assert!(output.status.success(), "{}", errors(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_machine_without_an_npu_is_no_failure_unless_one_is_required() {
    let folder = TempDir::new().unwrap();
    let report = json(folder.path());
    assert_eq!(report["npu"]["built"], cfg!(feature = "npu"));
    assert_eq!(report["npu"]["ready"], false);
    assert_eq!(report["npu"]["devices"], serde_json::json!([]));
    let areas: Vec<_> = report["findings"].as_array().unwrap().iter().collect();
    assert!(areas.iter().any(|finding| finding["area"] == "cpu"));
    let output = doctor(folder.path(), &["--require", "npu"]);
    assert_eq!(output.status.code(), Some(1));
    let said = errors(&output);
    let expected = match cfg!(feature = "npu") {
        true => "missing",
        false => "build it with `--features npu`",
    };
    assert!(
        said.contains("no NPU is ready") && said.contains(expected),
        "{said}"
    );
}

#[test]
fn versions_and_the_policy_are_named() {
    let folder = TempDir::new().unwrap();
    let report = json(folder.path());
    let finding = |report: &Value, area: &str| {
        let mut findings = report["findings"].as_array().unwrap().iter();
        let found = findings.find(|finding| finding["area"] == area);
        found.expect(area)["text"].as_str().unwrap().to_owned()
    };
    let lock = include_str!("../../../Cargo.lock");
    let burn = lock.split_once("name = \"burn\"\nversion = \"").unwrap().1;
    let burn = burn.split('"').next().unwrap();
    let build = finding(&report, "build");
    assert!(
        build.contains(&format!("Burn {burn}, built by rustc 1.")),
        "{build}"
    );
    assert!(build.contains(env!("CARGO_PKG_VERSION")), "{build}");
    let policy = finding(&report, "policy");
    assert!(policy.starts_with("`all`, the default"), "{policy}");
    let mut command = command();
    command
        .env("BURN_KERNELS", "none")
        .args(["doctor", "--json"]);
    let report = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    assert_eq!(finding(&report, "policy"), "`none`, from BURN_KERNELS");
}

#[test]
fn operations_are_listed_where_there_is_a_backend() {
    let folder = TempDir::new().unwrap();
    let output = doctor(folder.path(), &["--ops", "--json"]);
    if !cfg!(feature = "npu") {
        assert_eq!(output.status.code(), Some(2));
        let said = "error: `kernels doctor --ops` needs a build with `--features npu`\n";
        assert_eq!(errors(&output), said);
        return;
    }
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let operations = report["operations"].as_array().unwrap();
    let path = |family: &str, name: &str| {
        let mut all = operations.iter();
        let found = all.find(|one| one["family"] == family && one["name"] == name);
        found.unwrap_or_else(|| panic!("{name}"))["path"].clone()
    };
    assert_eq!(path("float", "float_matmul"), "native");
    assert_eq!(path("module", "conv2d"), "host");
    // The text explains each path, and every path occurs.
    let output = doctor(folder.path(), &["--ops"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for path in ["native", "composed", "view", "data", "host"] {
        let count = operations.iter().filter(|one| one["path"] == path).count();
        let line = text
            .lines()
            .find(|line| line.contains(&format!("{count} {path} ")));
        assert!(count > 0 && line.is_some(), "{path}: {text}");
    }
}

#[cfg(all(feature = "npu", target_os = "linux"))]
#[test]
fn what_is_missing_is_told_with_advice() {
    let folder = TempDir::new().unwrap();
    let report = json(folder.path());
    let findings = report["findings"].as_array().unwrap();
    let advised = |area: &str| {
        let mut findings = findings.iter().filter(|finding| finding["area"] == area);
        findings.any(|finding| finding["state"] == "missing" && finding["advice"].is_string())
    };
    assert!(advised("npu toolkit"), "{report}");
    assert!(advised("npu driver"), "{report}");
}
