use crate::ops::adam_w::{Settings, State, fused, reference};
use crate::reason::Reason;
use crate::registry::KernelSpec;
use crate::semantics::{AdamWKey, SemanticsKey};
use crate::verify::case::{Case, Computation, Computed, Variant};
use burn::tensor::Tensor;

/// A step of AdamW.
#[derive(Clone, Copy)]
struct AdamW {
    step: usize,
}

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    all().flat_map(|(variant, large)| Case::on_every_shape(variant, large))
}

/// The first step and a later one.
fn all() -> impl Iterator<Item = (AdamW, bool)> {
    [1, 10].into_iter().map(|step| (AdamW { step }, step > 1))
}

impl Variant for AdamW {
    fn kernel(&self) -> &'static KernelSpec {
        super::KERNEL
    }

    fn key(&self) -> SemanticsKey {
        AdamWKey.into()
    }

    fn describe(&self, shape: [usize; 4], layout: &str) -> String {
        format!("{shape:?}{layout} step {}", self.step)
    }

    fn compute(&self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        // A step has no gradient, so its tensors are the inner ones, without autodiff.
        let seen = |name: &str| -> Tensor<4> { at.leaf(name, shape).1.inner() };
        let state = State {
            parameter: seen("parameter"),
            moment_1: seen("moment_1"),
            // Squares are not negative. Half types hold the magnitudes exactly.
            moment_2: seen("moment_2").abs(),
        };
        // f32 holds these numbers exactly; devices may keep them in f32.
        let settings = Settings {
            learning_rate: 0.125,
            beta_1: 0.875,
            beta_2: 0.9375,
            epsilon: 2.0_f64.powi(-20),
            weight_decay: 0.0625,
            step: self.step,
        };
        let after = match at.fused {
            true => fused(state, seen("gradient"), settings)?,
            false => reference(state, seen("gradient"), settings),
        };
        Ok(vec![
            // The decayed parameter and the update may cancel, so the bound is on the larger of the two.
            Computed::new("parameter", Some(after.parameter)).sum_of(16.0),
            Computed::new("moment_1", Some(after.moment_1)),
            Computed::new("moment_2", Some(after.moment_2)),
        ])
    }
}
