//! Tests of `kernels semantics`.

use crate::common::{errors, json, kernels, stdout};

#[test]
fn a_mixture_has_attributes_for_its_experts_and_its_block() {
    let text = stdout(["semantics", "qwen2_moe"]);
    for attribute in [
        "#[fused_kernel(\"npu_fused_moe\", activation = silu, projections = chunked, layout = linear)]",
        "#[fused_kernel(\"npu_fused_moe\", part = block, scoring = softmax, shared = gated)]",
        "// the shared expert has the same MLP; with `norm_topk_prob`, `renormalise = sum`",
    ] {
        assert!(text.lines().any(|line| line == attribute), "{text}");
    }
    assert!(!stdout(["semantics", "qwen3"]).contains("npu_fused_moe"));
}

#[test]
fn all_models_are_listed() {
    let all = json(["semantics", "--json"]);
    let models = all.as_array().unwrap();
    let of = |name: &str| models.iter().find(|model| model["model_type"] == name);
    assert_eq!(of("mixtral").unwrap()["block"]["weights"], "wide");
    assert_eq!(of("gpt_oss").unwrap()["experts"]["bias"], "all");
    assert!(of("llama").unwrap()["block"].is_null());
    assert_eq!(
        stdout(["semantics", "--wide"]).lines().count(),
        1 + models.len()
    );
}

#[test]
fn an_unknown_model_is_an_error_that_lists_the_known() {
    let output = kernels(["semantics", "qwen4"]);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("`qwen4`") && said.contains("qwen3_moe"),
        "{said}"
    );
}
