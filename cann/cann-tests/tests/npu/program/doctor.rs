//! `kernels doctor` on emulated NPUs. `cli/tests` has the rest of it.

use super::{errors, program};
use crate::npu::common::library_folder;
use serde_json::Value;
use std::process::Output;

fn doctor(args: &[&str]) -> Output {
    let mut command = program(&library_folder());
    command.arg("doctor").args(args).output().unwrap()
}

#[test]
fn an_emulated_npu_is_ready_and_is_not_taken_for_a_real_one() {
    let output = doctor(&["--json"]);
    assert!(output.status.success(), "{}", errors(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["npu"]["ready"], false);
    assert_eq!(report["npu"]["emulated"], true);
    assert_eq!(report["npu"]["devices"], serde_json::json!([0, 1]));
    let real = doctor(&["--require", "npu"]);
    assert_eq!(real.status.code(), Some(1));
    assert!(errors(&real).contains("emulated NPUs ready: 0, 1"));
    let emulated = doctor(&["--require", "emulated-npu"]);
    assert!(emulated.status.success(), "{}", errors(&emulated));
    let text = String::from_utf8(emulated.stdout).unwrap();
    assert!(text.contains("the emulator, version"), "{text}");
}
