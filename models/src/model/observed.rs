//! Numbers of some tokens of a pass, beside their losses.

use burn::tensor::{FloatDType, Int, Tensor, TensorData};

use crate::model::causal_lm::{CausalLm, Losses};
use crate::model::divergences::selected;

/// Numbers of some tokens, `[places]` each, in f32, without gradients.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The entropy of the distribution of each one's next token, in nats.
    pub entropy: Tensor<1>,
    /// The mean of its logits.
    pub mean_logit: Tensor<1>,
    /// 1 where the most probable next token is the target, and 0 elsewhere.
    pub right: Tensor<1>,
}

impl Losses {
    /// Keeps the hidden states that the losses are computed from.
    pub(super) fn of_hidden(self, hidden: Tensor<3>) -> Self {
        Self {
            hidden: Some(hidden.without_autodiff()),
            ..self
        }
    }
}

impl CausalLm {
    /// Returns numbers of the tokens at `places`, `row · s + column` each, with a target each, of the pass that had
    /// these losses. Their logits are computed once more, so a few of all tokens cost little.
    ///
    /// # Panics
    /// Panics without a place, for places outside the sequences, for another number of targets, for losses of
    /// [`losses`](Self::losses), which are beside logits, and for a reward model.
    pub fn observe(&self, losses: &Losses, places: &[usize], targets: &[i64]) -> Observed {
        assert_eq!(places.len(), targets.len(), "each place has a target");
        let hidden = losses.hidden.clone();
        let hidden = hidden.expect("losses that are not beside logits have hidden states");
        let hidden = selected(hidden, places);
        let device = hidden.device();
        let found = self.projection(hidden).statistics();
        let targets = TensorData::new(targets.to_vec(), [targets.len()]);
        // In the type of the other operand: served devices have no casts of integers.
        let targets = Tensor::<1, Int>::from_data(targets, (&device, found.top.dtype()));
        let right = found.top.equal(targets).float();
        Observed {
            entropy: found.entropy.cast(FloatDType::F32),
            mean_logit: found.mean_logit.cast(FloatDType::F32),
            right: right.cast(FloatDType::F32),
        }
    }
}
