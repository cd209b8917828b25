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

/// Of the chips that the documentation tells apart, the first two have the kernels.
#[test]
fn the_chip_is_named() {
    for (soc, family, has_kernels) in [
        ("Ascend910B2", "Ascend 910B, Atlas A2", true),
        ("Ascend910_9391", "Ascend 910C, Atlas A3", true),
        ("Ascend310P3", "Ascend 310 or 310P, for inference", false),
        ("Ascend950PR", "Ascend 950", false),
    ] {
        let mut command = program(&library_folder());
        command.env("CANN_EMULATOR_SOC", soc);
        command.env("COLUMNS", "400");
        let output = command.arg("doctor").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        for id in 0..2 {
            let chip = format!("{id}: {soc} ({family})");
            let mut lines = text.lines();
            let line = lines.find(|line| line.contains(&chip));
            let line = line.unwrap_or_else(|| panic!("{chip} is not in {text}"));
            assert_eq!(line.contains("RMSNorm is right"), has_kernels, "{line}");
        }
        let said = "On this chip the references run, on the host";
        assert_eq!(text.contains(said), !has_kernels, "{text}");
    }
}
