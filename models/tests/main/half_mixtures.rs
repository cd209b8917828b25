//! Compares mixtures of experts in half precision with those of `transformers`.

use crate::common::SPARSE;
use crate::common::half::Run;
use burn::tensor::FloatDType;
use burn_kernels::policy::{self, Policy};

/// Checks each mixture as [`Run::positions_are_as_exact`] does, with kernels off and on.
fn positions_are_as_exact(dtype: FloatDType, factor: f64) {
    for name in SPARSE {
        for kernels in ["none", "all"] {
            let _policy = policy::scope(kernels.parse::<Policy>().unwrap());
            let label = format!("{name}, kernels {kernels}");
            Run::new(name, dtype).positions_are_as_exact(name, &label, factor);
        }
    }
}

#[test]
fn bf16_is_as_exact_as_transformers() {
    positions_are_as_exact(FloatDType::BF16, 1.25);
}

/// f16 has 3 bits more than bf16. The bound is an eighth of its error, with some room.
#[test]
fn f16_is_more_exact() {
    positions_are_as_exact(FloatDType::F16, 1.0 / 5.0);
}
