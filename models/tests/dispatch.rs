//! That a model's sites take the path that the policy asks for. One test: the report counts the
//! whole process.

mod common;

use burn::tensor::{Device, FloatDType};
use burn_kernels::policy::{self, Policy};
use burn_kernels::report;
use common::{ints, model_dir, read};
use kernels_models::load;
use std::collections::BTreeSet;

/// A model, the module of its sites, and the calls of one forward pass: layers × (norms, MLP,
/// rotary) and the last norm.
const EXPECTED: [(&str, &str, u64); 3] = [
    ("llama", "llama", 2 * (2 + 1 + 1) + 1),
    ("llama_rope3_tied", "llama", 2 * (2 + 1 + 1) + 1),
    ("qwen3", "qwen3", 2 * (4 + 1 + 1) + 1),
];

#[test]
fn every_site_follows_the_policy() {
    for (name, module, calls) in EXPECTED {
        for dtype in [
            FloatDType::F32,
            FloatDType::BF16,
            FloatDType::F16,
            FloatDType::F64,
        ] {
            // Both layers have as many calls, and the last norm is in none of them.
            let layer = (calls - 1) / 2;
            for (policy, fused, reference) in [
                ("all", calls, 0),
                ("none", 0, calls),
                ("all,-first:1", calls - layer, layer),
                ("none,+last:1", layer, calls - layer),
            ] {
                let _policy = policy::scope(policy.parse::<Policy>().unwrap());
                report::reset();
                train_step(name, dtype);
                let report = report::report();
                assert_eq!(
                    report.fused_calls(),
                    fused,
                    "{name}, {dtype:?}, {policy}:\n{report}"
                );
                assert_eq!(
                    report.reference_calls(),
                    reference,
                    "{name}, {dtype:?}, {policy}:\n{report}"
                );
                let own = format!("kernels_models::{module}::");
                let reached =
                    |row: &&report::ReportRow| row.site.starts_with(&own) && row.calls > 0;
                let sites: BTreeSet<_> = report
                    .rows
                    .iter()
                    .filter(reached)
                    .map(|r| &r.site)
                    .collect();
                assert_eq!(sites.len(), 3, "{report}");
            }
        }
    }
}

fn train_step(name: &str, dtype: FloatDType) {
    let device = Device::default().autodiff();
    let (_, model) = load(&model_dir(name), &device, dtype).unwrap();
    let golden = read(&model_dir(name).join("golden.safetensors"));
    let (_, loss) = model.loss(ints(&golden["input_ids"], &device), None);
    assert!(!model.gradients(&loss.backward()).is_empty());
}
