use super::live::Loss;
use crate::dispatch::At;
use crate::live::{self, Captured};
use crate::ops::cross_entropy::{self, Inputs, Operands, Settings};
use crate::semantics::CrossEntropyKey;
use burn::tensor::{Int, Tensor};

/// The numbers of a loss that a site reads. Those that are missing have the usual values.
#[derive(Clone, Copy, Debug, Default)]
pub struct LossNumbers {
    /// The target of tokens that don't count.
    pub ignore_index: Option<i64>,
    /// The part of the target distribution that is spread evenly over all classes.
    pub label_smoothing: Option<f64>,
    /// The limit of the logits.
    pub cap: Option<f64>,
    /// The factor of the z-loss.
    pub z_loss: Option<f64>,
}

impl From<LossNumbers> for Settings {
    fn from(numbers: LossNumbers) -> Self {
        let usual = Self::default();
        Self {
            ignore_index: numbers.ignore_index.unwrap_or(usual.ignore_index),
            label_smoothing: numbers.label_smoothing.unwrap_or(usual.label_smoothing),
            cap: numbers.cap,
            z_loss: numbers.z_loss.unwrap_or(usual.z_loss),
        }
    }
}

/// Runs the cross-entropy of a site.
#[track_caller]
pub fn cross_entropy(
    at: At,
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    numbers: LossNumbers,
    reference: &mut dyn FnMut((Tensor<2>, Tensor<1, Int>)) -> Tensor<1>,
) -> Tensor<1> {
    let _span = at.enter();
    let logits = logits.into_dispatch();
    if !at.peek([&logits]).is_fused() {
        at.decide([&logits]);
        return reference((Tensor::from_dispatch(logits), targets));
    }
    let inputs = Inputs {
        logits: Tensor::from_dispatch(logits),
        targets,
    };
    let operands = Operands::of(inputs, numbers.into(), at.key());
    let route = at.decide(operands.all());
    let captured = Captured::These(&[]);
    live::decided(&at, route, Loss::from(operands), captured, |loss| {
        reference((loss.inputs.logits, loss.inputs.targets))
    })
}

/// Runs [`cross_entropy::reference`].
#[track_caller]
pub fn cross_entropy_reference(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    numbers: LossNumbers,
    key: CrossEntropyKey,
) -> Tensor<1> {
    cross_entropy::reference(Inputs { logits, targets }, numbers.into(), key)
}
