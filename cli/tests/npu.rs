//! Commands on an NPU, which here is the emulator.

#![cfg(feature = "npu")]

mod common;

use common::{command, errors, fixture, floats};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A folder with the emulator under CANN's names.
fn emulator(folder: &Path) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_kernels"));
    let built = program.with_file_name("libcann_emulator.so");
    let built = match built.exists() {
        true => built,
        false => program.with_file_name("deps").join("libcann_emulator.so"),
    };
    let folder = folder.join("cann");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["libascendcl.so", "libnnopbase.so", "libopapi.so"] {
        std::os::unix::fs::symlink(&built, folder.join(name)).unwrap();
    }
    folder
}

fn npu(cann: &Path) -> Command {
    let mut command = command();
    command.env("CANN_LIB_DIR", cann);
    command.env("BURN_KERNELS_VERIFY", "off");
    command.env("BURN_CANN_FALLBACK", "deny");
    command
}

fn run(cann: &Path, model: &str, output: &Path, extra: &[&str]) -> Output {
    let mut command = npu(cann);
    command.arg("run").arg("--model").arg(fixture(model));
    command
        .arg("--inputs")
        .arg(fixture(model).join("golden.safetensors"));
    command.arg("--outputs").arg(output).args(extra);
    command.output().unwrap()
}

/// Nothing of a model's pass may run on the host; live verification, which computes in f64, would.
#[test]
fn the_goldens_of_every_model_hold_on_an_npu() {
    let folder = TempDir::new().unwrap();
    let cann = emulator(folder.path());
    for model in [
        "llama",
        "llama_rope3_tied",
        "qwen3",
        "qwen2_moe",
        "qwen2_moe_step2",
        "qwen3_moe",
        "mixtral",
    ] {
        let expected = floats(&fixture(model).join("golden.safetensors"));
        for policy in ["--kernels=all", "--kernels=none"] {
            let output = folder.path().join("out");
            let result = run(&cann, model, &output, &["--device=npu", "--grads", policy]);
            let what = format!("{model} {policy}");
            let said = errors(&result);
            assert!(result.status.success(), "{what}: {said}");
            // What it ran on is said on screen.
            assert!(
                said.contains("npu:0 is Ascend910B") && said.contains("emulator"),
                "{said}"
            );
            assert!(said.contains(" npu f32 training"), "{said}");
            // Every site that was reached is on CANN's operators, or none is.
            let sites: Vec<_> = said.lines().filter(|line| line.contains(" npu ")).collect();
            let path = match policy {
                "--kernels=all" => "fused aclnn",
                _ => "reference: switched off",
            };
            assert!(sites.len() >= 3, "{said}");
            for site in sites {
                assert!(site.contains(path), "{what}: {site}");
            }
            let found = floats(&output);
            let logits = found["logits"].distance_to_largest(&expected["logits"]);
            assert!(logits < 2e-5, "{what}: logits are off by {logits:e}");
            let loss = (found["loss"].values[0] - expected["loss"].values[0]).abs();
            assert!(loss < 1e-5, "{what}: the loss is off by {loss:e}");
            for name in expected.keys().filter(|name| name.starts_with("grad.")) {
                let distance = found[name].distance_to_norm(&expected[name]);
                assert!(distance < 1e-4, "{what}: {name} is off by {distance:e}");
            }
        }
    }
}

fn losses(run: &Path) -> Vec<f64> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let points = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    points
        .map(|point| point["loss"].as_f64().unwrap())
        .collect()
}

#[test]
fn training_on_an_npu_follows_training_on_the_cpu() {
    let folder = TempDir::new().unwrap();
    let cann = emulator(folder.path());
    let text = folder.path().join("text.txt");
    std::fs::write(&text, &include_bytes!("../corpus/alice.txt")[..4000]).unwrap();
    let train = |device: &str, policy: &str| {
        let out = folder.path().join(format!("{device}{policy}"));
        let result = npu(&cann)
            .args(["train", "--steps=3", "--batch=2", "--seq=32", "--quiet"])
            .args(["--device", device, "--kernels", policy])
            .arg("--out")
            .arg(&out)
            .arg("--corpus")
            .arg(&text)
            .output()
            .unwrap();
        assert!(result.status.success(), "{}", errors(&result));
        losses(&out)
    };
    let expected = train("cpu", "all");
    assert!(expected.len() > 3);
    for policy in ["all", "none"] {
        let found = train("npu", policy);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            let distance = (found - expected).abs() / expected;
            assert!(distance < 1e-4, "{policy}: {found} beside {expected}");
        }
    }
}

/// An operator that fails and memory that is short, in the middle of training.
#[test]
fn a_fault_in_training_is_an_error_with_its_cause() {
    let folder = TempDir::new().unwrap();
    let cann = emulator(folder.path());
    let text = folder.path().join("text.txt");
    std::fs::write(&text, &include_bytes!("../corpus/alice.txt")[..4000]).unwrap();
    let faults = [
        ("CANN_EMULATOR_FAIL", "aclnnSwiGluGrad=561003", "561003"),
        ("CANN_EMULATOR_MEMORY", "9000000", "memory"),
    ];
    for (number, (variable, value, expected)) in faults.into_iter().enumerate() {
        let out = folder.path().join(format!("run{number}"));
        let result = npu(&cann)
            .args(["train", "--steps=3", "--batch=2", "--seq=32", "--quiet"])
            .args(["--device", "npu"])
            .arg("--out")
            .arg(&out)
            .arg("--corpus")
            .arg(&text)
            .env(variable, value)
            .output()
            .unwrap();
        let said = errors(&result);
        assert_eq!(result.status.code(), Some(1), "{said}");
        let cause = said.lines().find(|line| line.starts_with("the NPU said:"));
        let cause = cause.unwrap_or_else(|| panic!("no cause is told: {said}"));
        assert!(cause.contains(expected), "{said}");
        assert!(
            !out.join("checkpoint").exists(),
            "a checkpoint is whole or not there"
        );
    }
}

/// Kernels on the emulator beside their references: within the budget, or refused with a reason.
#[test]
fn verification_on_an_npu_passes() {
    let folder = TempDir::new().unwrap();
    let cann = emulator(folder.path());
    let result = npu(&cann)
        .args(["verify", "--device", "npu"])
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&result.stdout).into_owned();
    let failed: Vec<_> = report
        .lines()
        .filter(|line| line.contains("FAILED"))
        .collect();
    assert!(
        failed.is_empty(),
        "{}: {:#?}",
        failed.len(),
        &failed[..failed.len().min(20)]
    );
    assert!(result.status.success(), "{}", errors(&result));
    assert!(report.matches(" ok, ").count() > 500, "{report}");
}

#[test]
fn what_is_missing_for_an_npu_is_said() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("out");
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let result = run(&empty, "qwen3", &output, &["--device=npu"]);
    assert!(!result.status.success());
    assert!(
        errors(&result).contains("kernels doctor"),
        "{}",
        errors(&result)
    );
    let cann = emulator(folder.path());
    let result = run(&cann, "qwen3", &output, &["--device=npu:99"]);
    assert!(!result.status.success());
    assert!(
        errors(&result).contains("there is no NPU 99"),
        "{}",
        errors(&result)
    );
    let result = run(&cann, "qwen3", &output, &["--device=npu:first"]);
    assert!(
        errors(&result).contains("is no device's number"),
        "{}",
        errors(&result)
    );
}
