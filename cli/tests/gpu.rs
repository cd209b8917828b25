//! Commands on a GPU, on whatever adapter wgpu finds. Mesa's lavapipe, a Vulkan in software, is enough.

#![cfg(feature = "gpu")]

mod common;
#[path = "../../models/tests/common/mod.rs"]
mod models;

use burn::tensor::{Device, FloatDType};
use burn_kernels::report;
use common::comparison::{difference, relative};
use common::{command, errors, json};
use kernels_models::load;
use models::{check_gradients, ints, model_dir, read, to_f64};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;
use tempfile::TempDir;

const KERNELS: [&str; 11] = [
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
    "npu_fused_moe",
];

/// Returns whether a row of a plan or a report names an implementation for GPUs. A router's has a name of its own.
fn is_fused(row: &Value) -> bool {
    let name = row["implementation"].as_str();
    name.is_some_and(|name| ["cubecl", "cubecl-router"].contains(&name))
}

#[test]
fn a_plan_shows_the_kernels_and_the_reasons() {
    let plan = json(["plan", "--device", "gpu", "--json"]);
    assert_eq!(plan["device"], "webgpu");
    let rows = plan["sites"].as_array().unwrap();
    assert!(rows.len() > 20, "{plan:#}");
    let has_kernel = |row: &Value| KERNELS.iter().any(|kernel| row["kernel"] == *kernel);
    for row in rows {
        let has_kernel = has_kernel(row);
        match has_kernel && !row["key"].as_str().unwrap().contains("topk") {
            true => assert!(is_fused(row), "{row:#}"),
            false if has_kernel => assert_eq!(row["reason"], "semantics", "{row:#}"),
            false => assert_eq!(row["reason"], "no_implementation", "{row:#}"),
        }
    }
    // The kernels take bf16, but no device of WebGPU does.
    let plan = json(["plan", "--device", "gpu", "--dtype", "bf16", "--json"]);
    assert_eq!(plan["dtype"], "bf16");
    for row in plan["sites"].as_array().unwrap() {
        assert_eq!(row["implementation"], Value::Null, "{row:#}");
        if has_kernel(row) && !row["key"].as_str().unwrap().contains("topk") {
            assert_eq!(row["reason"], "dtype", "{row:#}");
        }
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
        calls.any(|row| is_fused(&row["call"]))
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
    // Its experts are not gated units of their own.
    let mut kernels = OF_MODELS.to_vec();
    kernels.push("npu_fused_moe");
    learns_as_on_the_cpu("qwen3-moe", "2", &kernels);
}

/// Compares logits, loss and gradients of a mixture with those of transformers.
fn golden_holds(name: &str) {
    static OPENED: OnceLock<Device> = OnceLock::new();
    let device = OPENED.get_or_init(|| Device::wgpu_options().init().unwrap());
    let device = device.clone().autodiff();
    let (_, model) = load(&model_dir(name), &device, FloatDType::F32).unwrap();
    let golden = read(&model_dir(name).join("golden.safetensors"));
    report::reset();
    let (logits, loss) = model.loss(ints(&golden["input_ids"], &device), None);
    let gradients = model.gradients(&loss.backward());
    let report = report::report();
    let of_mixture = report
        .rows
        .iter()
        .filter(|row| row.kernel == "npu_fused_moe");
    let ran: BTreeSet<_> = of_mixture
        .filter_map(|row| Some(row.call.as_ref()?.implementation))
        .collect();
    assert_eq!(
        ran,
        [Some("cubecl"), Some("cubecl-router")].into(),
        "{report}"
    );
    let expected = golden["logits"].values();
    let error = relative(&to_f64(&logits.into_data()), &expected);
    assert!(error < 2e-5, "{name}: logits off by {error:e}\n{report}");
    let error = difference(&to_f64(&loss.into_data()), &golden["loss"].values());
    assert!(error < 1e-5, "{name}: loss off by {error:e}\n{report}");
    check_gradients(name, &golden, &gradients);
}

/// Stacked weights in both layouts, biases and a clamp; softmax and sigmoid routers, with a correction and groups.
#[test]
fn mixtures_are_those_of_transformers() {
    for name in ["qwen3_moe", "gpt_oss_sw8", "deepseek_v3_yarn"] {
        golden_holds(name);
    }
}

#[test]
fn a_plan_of_a_mixture_shows_its_kernels() {
    let folder = model_dir("qwen3_moe");
    let folder = folder.to_str().unwrap();
    let plan = json(["plan", "--device", "gpu", "--model", folder, "--json"]);
    let rows = plan["sites"].as_array().unwrap().iter();
    let of_mixture = rows.filter(|row| row["kernel"] == "npu_fused_moe");
    let names: BTreeSet<_> = of_mixture
        .map(|row| row["implementation"].as_str())
        .collect();
    assert_eq!(
        names,
        [Some("cubecl"), Some("cubecl-router")].into(),
        "{plan:#}"
    );
}
