//! Commands on a GPU, on whatever adapter wgpu finds. Mesa's lavapipe, a Vulkan in software, is enough.

#![cfg(feature = "gpu")]

mod common;

use common::{command, errors, json};
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

const KERNELS: [&str; 10] = [
    "npu_fused_rmsnorm",
    "npu_fused_add_rmsnorm",
    "npu_fused_layernorm",
    "npu_fused_swiglu",
    "npu_fused_rope",
    "npu_fused_qk_norm_rope",
    "npu_fused_attention",
    "npu_fused_cross_entropy",
    "npu_fused_linear_cross_entropy",
    "npu_fused_adam_w",
];

#[test]
fn a_plan_shows_the_kernels_and_the_reasons() {
    let plan = json(["plan", "--device", "gpu", "--json"]);
    assert_eq!(plan["device"], "webgpu");
    let rows = plan["sites"].as_array().unwrap();
    assert!(rows.len() > 20, "{plan:#}");
    for row in rows {
        let has_kernel = KERNELS.iter().any(|kernel| row["kernel"] == *kernel);
        match has_kernel && !row["key"].as_str().unwrap().contains("topk") {
            true => assert_eq!(row["implementation"], "cubecl", "{row:#}"),
            false if has_kernel => assert_eq!(row["reason"], "semantics", "{row:#}"),
            false => assert_eq!(row["reason"], "no_implementation", "{row:#}"),
        }
    }
    let plan = json(["plan", "--device", "gpu", "--dtype", "bf16", "--json"]);
    for row in plan["sites"].as_array().unwrap() {
        assert_eq!(row["implementation"], Value::Null, "{row:#}");
    }
}

/// Trains for some steps, and returns the losses and the summary.
fn train(folder: &Path, preset: &str, steps: &str, device: &str) -> (Vec<f64>, Value) {
    let run = folder.join(format!("{preset}-{device}"));
    let text = folder.join("text.txt");
    std::fs::write(&text, &include_bytes!("../corpus/alice.txt")[..4000]).unwrap();
    let mut command = command();
    command.args([
        "train",
        "--steps",
        steps,
        "--batch=2",
        "--seq=32",
        "--quiet",
        "--json",
    ]);
    command.args(["--preset", preset, "--device", device, "--out"]);
    command.arg(&run).arg("--corpus").arg(&text);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    let metrics = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let points = metrics
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let losses = points
        .map(|point| point["loss"].as_f64().unwrap())
        .collect();
    (losses, serde_json::from_slice(&output.stdout).unwrap())
}

/// Trains on both devices, and compares. `kernels` are those that run on the GPU.
fn learns_as_on_the_cpu(preset: &str, steps: &str, kernels: &[&str]) {
    let folder = TempDir::new().unwrap();
    let (expected, _) = train(folder.path(), preset, steps, "cpu");
    let (got, summary) = train(folder.path(), preset, steps, "gpu");
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(&expected) {
        assert!((got - expected).abs() < 1e-3, "{got} and {expected}");
    }
    // What ran on the GPU, by the report of the run.
    let rows = summary["dispatch"]["rows"].as_array().unwrap().iter();
    let calls: Vec<_> = rows
        .filter(|row| row["call"]["device"] == "webgpu")
        .collect();
    let ran = |kernel: &str| {
        let mut calls = calls.iter().filter(|row| row["call"]["kernel"] == kernel);
        calls.any(|row| row["call"]["implementation"] == "cubecl")
    };
    for kernel in kernels {
        assert!(ran(kernel), "{kernel}: {:#}", summary["dispatch"]);
    }
    let references = calls.iter().filter(|row| row["call"]["kernel"].is_null());
    for row in references {
        assert_eq!(row["call"]["reason"], "no_implementation", "{row:#}");
    }
}

/// The kernels of each model here: its norms, its attention, its loss and its optimiser.
const OF_MODELS: [&str; 6] = [
    "npu_fused_rmsnorm",
    "npu_fused_add_rmsnorm",
    "npu_fused_qk_norm_rope",
    "npu_fused_attention",
    "npu_fused_linear_cross_entropy",
    "npu_fused_adam_w",
];

#[test]
fn a_model_learns_as_on_the_cpu() {
    let mut kernels = OF_MODELS.to_vec();
    kernels.push("npu_fused_swiglu");
    learns_as_on_the_cpu("qwen3", "5", &kernels);
}

#[test]
fn a_mixture_learns_as_on_the_cpu() {
    // Its experts are no gated units of their own.
    learns_as_on_the_cpu("qwen3-moe", "2", &OF_MODELS);
}
