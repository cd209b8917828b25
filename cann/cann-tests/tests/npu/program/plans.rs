//! Tests of `kernels plan --device npu` for models.

use super::{errors, program};
use crate::models::model_dir;
use crate::npu::common::library_folder;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tempfile::TempDir;

/// The operators of a model's sites, by kernel.
type Named = BTreeMap<String, BTreeSet<String>>;

/// Returns the operators that a plan names. Fails if a site has none, or would run its reference.
fn plan(folder: &Path, dtype: &str, mode: &str) -> Named {
    let mut command = program(&library_folder());
    command.args([
        "plan",
        "--device=npu",
        "--json",
        "--dtype",
        dtype,
        "--mode",
        mode,
    ]);
    let output = command.arg("--model").arg(folder).output().unwrap();
    let what = format!("{}, {dtype}, {mode}", folder.display());
    assert!(output.status.success(), "{what}: {}", errors(&output));
    let plan: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut named = Named::new();
    for row in plan["sites"].as_array().unwrap() {
        let of_cann = |name: &Value| name.as_str().is_some_and(|name| name.starts_with("aclnn"));
        let operators = row["operators"].as_array();
        let operators = operators.unwrap_or_else(|| panic!("{what}: no operators in {row:#}"));
        assert!(
            row["reason"].is_null()
                && row["lack"].is_null()
                && of_cann(&row["implementation"])
                && operators.iter().all(of_cann),
            "{what}: {row:#}"
        );
        let operators = operators
            .iter()
            .map(|name| name.as_str().unwrap().to_owned());
        let kernel = row["kernel"].as_str().unwrap().to_owned();
        named.entry(kernel).or_default().extend(operators);
    }
    named
}

/// Fails unless the plans of a model in every dtype and mode name operators for all its sites, and in training for a kernel at
/// least these.
fn is_planned(folder: &Path, training: &[(&str, &[&str])]) {
    for dtype in ["f32", "bf16", "f16"] {
        let named = plan(folder, dtype, "training");
        for (kernel, operators) in training {
            for operator in *operators {
                assert!(
                    named
                        .get(*kernel)
                        .is_some_and(|named| named.contains(*operator)),
                    "{}: {operator} of {kernel} in {named:?}",
                    folder.display()
                );
            }
        }
    }
    plan(folder, "bf16", "inference");
}

/// The configuration of SmolLM2-135M.
#[test]
fn smollm2() {
    let folder = TempDir::new().unwrap();
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
        "num_attention_heads": 9, "num_key_value_heads": 3, "rms_norm_eps": 1e-5,
        "rope_theta": 100_000, "rope_scaling": null, "max_position_embeddings": 8192,
        "tie_word_embeddings": true, "attention_bias": false, "vocab_size": 49152,
    });
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    is_planned(
        folder.path(),
        &[
            ("npu_fused_rmsnorm", &["aclnnRmsNorm"]),
            ("npu_fused_add_rmsnorm", &["aclnnAddRmsNorm"]),
            ("npu_fused_swiglu", &["aclnnCat", "aclnnSwiGlu"]),
            ("npu_fused_attention", &["aclnnFlashAttentionScore"]),
        ],
    );
}

#[test]
fn qwen3() {
    is_planned(
        &model_dir("qwen3"),
        &[
            ("npu_fused_qk_norm_rope", &["aclnnRmsNorm"]),
            ("npu_fused_swiglu", &["aclnnCat", "aclnnSwiGlu"]),
            ("npu_fused_attention", &["aclnnFlashAttentionScore"]),
        ],
    );
}

#[test]
fn gemma_2() {
    is_planned(
        &model_dir("gemma2_sw8"),
        &[
            ("npu_fused_swiglu", &["aclnnCat", "aclnnGeGluV3"]),
            (
                "npu_fused_attention",
                &["aclnnMatmul", "aclnnTanh", "aclnnSoftmax"],
            ),
        ],
    );
}

#[test]
fn gemma_3n() {
    is_planned(
        &model_dir("gemma3n_kvshare"),
        &[("npu_fused_attention", &["aclnnFlashAttentionScore"])],
    );
}

#[test]
fn gpt_oss() {
    is_planned(
        &model_dir("gpt_oss_sw8"),
        &[
            ("npu_fused_moe", &["aclnnGroupedMatmulV5"]),
            ("npu_fused_attention", &["aclnnFlashAttentionScoreV3"]),
        ],
    );
}

#[test]
fn qwen2_5_vl() {
    is_planned(
        &model_dir("qwen2_5_vl"),
        &[
            ("npu_fused_swiglu", &["aclnnCat", "aclnnSwiGlu"]),
            ("npu_fused_attention", &["aclnnFlashAttentionScore"]),
        ],
    );
}
