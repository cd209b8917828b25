use super::{Inputs, Settings, fused, reference};
use crate::reason::Reason;
use crate::registry::KernelSpec;
use crate::semantics::{CrossEntropyKey, LogitCap, LossReduction, SemanticsKey};
use crate::verify::case::{Case, Computation, Computed, Variant};
use burn::tensor::{Int, Tensor, TensorData};

/// A cross-entropy. Tokens are all axes but the last.
#[derive(Clone, Copy)]
struct CrossEntropy {
    key: CrossEntropyKey,
}

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    keys().flat_map(|key| {
        let large = key.reduction == LossReduction::None;
        let all = Case::on_every_shape(CrossEntropy { key }, large);
        all.filter(move |case| has_loss(key.reduction, case.shape()))
    })
}

/// Returns whether the loss of a case is a number. The mean of no tokens is none.
pub(in crate::ops) fn has_loss(reduction: LossReduction, [a, b, c, _]: [usize; 4]) -> bool {
    reduction != LossReduction::Mean || a * b * c > 0
}

/// Returns each reduction, with a cap and without.
pub(in crate::ops) fn keys() -> impl Iterator<Item = CrossEntropyKey> {
    let reductions = [LossReduction::Mean, LossReduction::Sum, LossReduction::None];
    reductions.into_iter().flat_map(|reduction| {
        [LogitCap::None, LogitCap::Tanh].map(|cap| CrossEntropyKey { reduction, cap })
    })
}

/// Returns the numbers of a case.
pub(in crate::ops) fn settings(cap: LogitCap) -> Settings {
    Settings {
        label_smoothing: 0.125,
        cap: (cap == LogitCap::Tanh).then_some(2.0),
        z_loss: 0.0625,
        ..Settings::default()
    }
}

/// Returns targets, every fifth of which is ignored. Without classes, all are.
pub(in crate::ops) fn targets(
    tokens: usize,
    classes: usize,
    at: &Computation<'_>,
) -> Tensor<1, Int> {
    let class = |token: usize| match (token % 5 == 3, classes) {
        (true, _) | (_, 0) => Settings::IGNORE_INDEX,
        (false, _) => (token * 7 % classes) as i64,
    };
    let classes: Vec<i64> = (0..tokens).map(class).collect();
    Tensor::from_data(
        TensorData::new(classes, [tokens]),
        &at.device.clone().inner(),
    )
}

/// Returns a bound on the terms of a loss of logits of this size, and on those of its gradient.
pub(in crate::ops) fn terms(largest: f64, classes: usize, settings: Settings) -> [f64; 2] {
    let lse = largest + (classes.max(1) as f64).ln();
    // The logarithm, the target's logit and the mean; an error of a logit is one of its exponential.
    let loss = lse + 2.0 * largest + settings.z_loss * lse * lse;
    let gradient = 2.0 + 2.0 * settings.z_loss * lse;
    [loss, gradient * (1.0 + lse)]
}

impl Variant for CrossEntropy {
    fn kernel(&self) -> &'static KernelSpec {
        super::KERNEL
    }

    fn key(&self) -> SemanticsKey {
        self.key.into()
    }

    fn compute(&self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        let (leaf, logits) = at.leaf("logits", shape);
        let [a, b, c, classes] = shape;
        let tokens = a * b * c;
        let inputs = Inputs {
            logits: logits.flatten(0, 2),
            targets: targets(tokens, classes, at),
        };
        let settings = settings(self.key.cap);
        let loss = match at.fused {
            true => fused(inputs, settings, self.key)?,
            false => reference(inputs, settings, self.key),
        };
        let [elements] = loss.dims();
        let dy = at.plain("dy", [elements]).cast(loss.dtype());
        let grads = (loss.clone() * dy).sum().backward();
        let [terms, gradient] = terms(at.largest("logits", shape), classes, settings);
        let rows = match self.key.reduction {
            LossReduction::Sum => tokens.max(1) as f64,
            LossReduction::Mean | LossReduction::None => 1.0,
        };
        Ok(vec![
            // The loss stays in f32.
            Computed::new("loss", Some(loss)).sum_of(terms * rows),
            Computed::new("d_logits", leaf.grad(&grads))
                .sum_of(gradient * at.largest("dy", [elements])),
        ])
    }
}
