//! Tests that a model's sites take the path that the policy asks for.

use crate::common::{ints, model_dir, read};
use crate::counting::alone;
use burn::tensor::{Device, FloatDType};
use burn_kernels::policy::{self, Policy};
use burn_kernels::report;
use kernels_models::load;
use std::collections::BTreeSet;

/// A model, the modules of its sites, the number of sites that it uses, and the calls of one forward pass in each
/// layer. A dense layer calls norms, MLP, rotary function and attention; a sparse one calls norms, experts, block, rotary
/// function, attention and, if there is one, the shared expert. Qwen3 calls [`norm_and_rotate`] in place of its rotary
/// function, whose body calls that function and two norms, and so do Gemma 3 and GLM-4-MoE. Gemma and GLM-4 also call a
/// norm after attention and after the MLP.
///
/// [`norm_and_rotate`]: kernels_models::qwen3::norm_and_rotate
struct Expected {
    model: &'static str,
    modules: &'static [&'static str],
    sites: usize,
    layers: [u64; 2],
}

const fn expected(
    model: &'static str,
    modules: &'static [&'static str],
    sites: usize,
    layers: [u64; 2],
) -> Expected {
    Expected {
        model,
        modules,
        sites,
        layers,
    }
}

const EXPECTED: [Expected; 18] = [
    expected("llama", &["llama", "attention"], 5, [5, 5]),
    expected("llama_rope3_tied", &["llama", "attention"], 5, [5, 5]),
    expected("qwen3", &["qwen3", "attention"], 5, [5, 5]),
    expected("mixtral", &["llama", "mixtral", "attention"], 6, [6, 6]),
    expected("qwen2_moe", &["llama", "qwen2_moe", "attention"], 7, [7, 7]),
    expected("qwen3_moe", &["qwen3", "qwen3_moe", "attention"], 6, [6, 6]),
    expected(
        "qwen3_moe_mixed",
        &["qwen3", "qwen3_moe", "attention"],
        7,
        [5, 6],
    ),
    expected("qwen2", &["llama", "attention"], 5, [5, 5]),
    expected("mistral_sw8", &["llama", "attention"], 5, [5, 5]),
    expected("gemma2_sw8", &["llama", "gemma2"], 6, [7, 7]),
    expected(
        "gemma3_sw8_linear",
        &["llama", "gemma2", "gemma3", "attention"],
        6,
        [7, 7],
    ),
    expected("glm4", &["llama", "glm4", "phi3", "attention"], 5, [7, 7]),
    expected(
        "glm4_moe_norms",
        &["llama", "phi3", "glm4_moe", "attention"],
        7,
        [5, 7],
    ),
    expected(
        "glm4v_moe",
        &["llama", "glm4_moe", "glm4v_moe", "attention"],
        7,
        [5, 7],
    ),
    // Llama 4's first layer rotates and then normalises queries and keys; its last does not, and is sparse. The block has
    // no site.
    expected(
        "llama4_chunk8",
        &["llama", "llama4", "attention"],
        8,
        [7, 5],
    ),
    // DeepSeek's attention also calls two norms.
    expected(
        "deepseek_v3_yarn",
        &["llama", "glm4_moe", "deepseek_v3", "attention"],
        7,
        [7, 9],
    ),
    expected("gpt_oss_sw8", &["olmo2", "gpt_oss"], 7, [6, 6]),
    expected("phi3_partial", &["llama", "phi3", "attention"], 5, [5, 5]),
];

#[test]
fn every_site_follows_the_policy() {
    let _alone = alone();
    for Expected {
        model: name,
        modules,
        sites,
        layers: [first, last],
    } in EXPECTED
    {
        for dtype in [
            FloatDType::F32,
            FloatDType::BF16,
            FloatDType::F16,
            FloatDType::F64,
        ] {
            // The last norm and the loss are in neither layer. Where a sum and its norm are not fused, the body calls the
            // norm, which counts too: one call in the first layer, two in the last, and one for the last norm.
            let calls = first + last + 2;
            let families = ["qwen3", "gemma3", "glm4_moe"];
            let normalised = families.iter().any(|family| name.starts_with(family));
            let inner = if normalised { 3 } else { 0 };
            for (policy, fused, reference, composed) in [
                ("all", calls, 0, 0),
                ("none", 0, calls + 4, 2),
                ("all,-first:1", calls - first, first + 1, 1),
                ("none,+last:1", last, calls - last + 2, 1),
                ("all,-npu_fused_add_rmsnorm", calls, 4, 0),
            ] {
                let reference = reference + composed * inner;
                // The rotary function of Qwen3 is a site that only the body calls.
                let sites = sites + usize::from(composed * inner > 0);
                let _policy = policy::scope(policy.parse::<Policy>().unwrap());
                report::reset();
                train_step(name, dtype);
                let report = report::report();
                let counted = calls_of(&report, |kernel| kernel != "npu_fused_linear");
                assert_eq!(
                    counted,
                    [fused, reference],
                    "{name}, {dtype:?}, {policy}:\n{report}"
                );
                // Projections, and the logits, are one layer of `burn_kernels::nn` and one function.
                let linear = calls_of(&report, |kernel| kernel == "npu_fused_linear");
                assert_eq!(
                    linear[0] > 0,
                    policy != "none",
                    "{name}, {policy}:\n{report}"
                );
                assert_eq!(
                    linear[1] > 0,
                    policy.contains("first") || policy.starts_with("none"),
                    "{name}, {policy}:\n{report}"
                );
                let own = |row: &report::ReportRow| {
                    let module = row.site.strip_prefix("kernels_models::layers::");
                    let module = module.and_then(|path| path.split("::").next());
                    module.is_some_and(|module| modules.contains(&module))
                };
                let reached = |row: &&report::ReportRow| own(row) && row.calls > 0;
                let reached: BTreeSet<_> = report
                    .rows
                    .iter()
                    .filter(reached)
                    .map(|r| &r.site)
                    .collect();
                assert_eq!(reached.len(), sites, "{report}");
            }
        }
    }
}

/// Returns the numbers of fused calls and of calls of the reference of some kernels.
fn calls_of(report: &report::Report, of: impl Fn(&str) -> bool) -> [u64; 2] {
    [true, false].map(|is_fused| {
        let rows = report.rows.iter().filter(|row| of(row.kernel));
        let took = |call: &report::Call| call.implementation.is_some() == is_fused;
        let rows = rows.filter(|row| row.call.as_ref().is_some_and(took));
        rows.map(|row| row.calls).sum()
    })
}

fn train_step(name: &str, dtype: FloatDType) {
    let device = Device::default().autodiff();
    let (_, model) = load(&model_dir(name), &device, dtype).unwrap();
    let golden = read(&model_dir(name).join("golden.safetensors"));
    let (_, loss) = model.loss(ints(&golden["input_ids"], &device), None);
    assert!(!model.gradients(&loss.backward()).is_empty());
}
