//! Policies, mappings and plans.

use crate::{target, text};
use burn::tensor::{DType, Device};
use kernels_fuzz::fuzz;
// Links the sites that patterns and plans name.
use kernels_models as _;
use kernels_runtime::dispatch::{Mode, PlanCheckError, plan_for};
use kernels_runtime::policy::Policy;

const WORDS: &[&str] = &[
    "all",
    "auto",
    "none",
    "strict",
    "deterministic",
    "tune",
    ",",
    "+npu_fused_rope",
    "-npu_fused_swiglu",
    "npu_fused_rmsnorm",
    "-llama::*",
    "+*Mlp",
    "first:2",
    "last:1",
    "layers:1-3",
    "prefer:cpu-simd",
    "warn:dtype",
    "silent:no_device",
    "map:RMSNorm@cpu:80..=90/training+compile=reference",
    "\"",
    "[[mapping]]\n",
    "layer = \"",
    "kernel = \"reference\"\n",
    "device = \"cuda\"\n",
    "capability = \"80..=90\"\n",
    "mode = \"training\"\n",
    "tune = true\n",
    "enable = [",
    "sites = [",
    "[reactions]\n",
    "\u{202e}",
    "\\u0007",
];

/// Checks that text and TOML both hold the whole policy.
fn reads_back(policy: &Policy) {
    let written = policy.to_string();
    assert_eq!(written.parse().as_ref(), Ok(policy), "{written}");
    let toml = policy.to_toml();
    assert_eq!(Policy::from_toml(&toml).as_ref(), Ok(policy), "{toml}");
}

#[test]
fn policy_text() {
    fuzz(target("policy_text", WORDS), |input| {
        let text = text(input)?;
        if text.trim_start().starts_with('@') {
            return Err("a file".to_owned());
        }
        let policy: Policy = text.parse().map_err(shown)?;
        reads_back(&policy);
        Ok(())
    });
}

#[test]
fn policy_toml() {
    fuzz(target("policy_toml", WORDS), |input| {
        let policy = Policy::from_toml(text(input)?).map_err(shown)?;
        reads_back(&policy);
        Ok(())
    });
}

#[test]
fn tuned_choices() {
    let words = [
        "release = \"0\"\n",
        "[[choices]]\n",
        "[choices.device]\n",
        "[[choices.class]]\n",
        "name = \"a processor\"\n",
        "kind = \"cpu\"\n",
        "dtype = \"bf16\"\n",
        "mode = \"inference\"\n",
        "tensors = [\"8x7\"]\n",
        "choice = \"reference\"\n",
        "kernel_ns = 1\n",
        "\\u001b",
    ];
    fuzz(target("tuned_choices", &words), |input| {
        kernels_runtime::tune::fuzz::file(text(input)?).map_err(shown)
    });
}

#[test]
fn plan_file() {
    let plan = plan_for(&Device::flex(), DType::F32, Mode::Training).expect("a plan");
    assert_eq!(plan.check(&plan.to_toml()), Ok(()));
    let words = [
        "schema = 1\n",
        "[[site]]\n",
        "name = \"a::b\"\n",
        "key = \"rope()\"\n",
        "kernel = \"npu_fused_rope\"\n",
        "reference = \"dtype\"\n",
        "kernel_version = 1\n",
        "\\u001b",
    ];
    fuzz(target("plan_file", &words), |input| {
        match plan.check(text(input)?) {
            Ok(()) => Ok(()),
            Err(different @ PlanCheckError::Different(_)) => {
                let shown = different.to_string();
                assert!(
                    !shown.chars().any(|c| c.is_control() && c != '\n'),
                    "{shown:?}"
                );
                Ok(())
            }
            Err(other) => Err(other.to_string()),
        }
    });
}

fn shown(error: impl ToString) -> String {
    error.to_string()
}
