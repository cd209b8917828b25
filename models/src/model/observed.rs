//! What a pass says of some tokens beside their losses.

use burn::tensor::{DType, FloatDType, Gradients, Int, Tensor, TensorData};

use crate::model::causal_lm::{CausalLm, Losses};
use crate::model::sequences::{Counted, Sequences};

/// Sums over some tokens, in f32, without gradients.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The entropies of the distributions of their next tokens in nats, `[1]`.
    pub entropy: Tensor<1>,
    /// The number of those whose most probable next token is the target, `[1]`.
    pub right: Tensor<1>,
}

impl CausalLm {
    /// Returns the losses of [`sequence_losses`](Self::sequence_losses), and what is observed of the tokens at
    /// `places`,
    /// `row · s + column` each. Their logits are computed once more, so a few of all tokens cost little.
    ///
    /// # Panics
    /// Panics as `sequence_losses` does, without a place, and for places outside the sequences.
    pub fn observed_losses(&self, sequences: Sequences, places: &[usize]) -> (Losses, Observed) {
        let (packed, counted) = sequences.parts(self.config());
        let passed = self.model.forward_packed(packed);
        let observed = self.observe(&passed.0, &counted.targets, places);
        (self.losses_of_hidden(passed, counted), observed)
    }

    /// Returns the results of [`observed_losses`](Self::observed_losses), and passes gradients to `take`, as
    /// [`recomputed_losses`](Self::recomputed_losses) does.
    ///
    /// # Panics
    /// Panics as `observed_losses` and `recomputed_losses` do.
    pub fn recomputed_observed_losses(
        &self,
        sequences: Sequences,
        places: &[usize],
        weight_and_seed: (f64, u64),
        take: impl FnMut(Gradients),
    ) -> (Losses, Observed) {
        let mut observed = None;
        let losses = |model: &Self, passed: (Tensor<3>, Vec<Tensor<2>>), counted: Counted| {
            observed = Some(model.observe(&passed.0, &counted.targets, places));
            model.losses_of_hidden(passed, counted)
        };
        let losses = self.recomputed(sequences, losses, weight_and_seed, take);
        (losses, observed.expect("the losses were computed"))
    }

    fn observe(&self, hidden: &Tensor<3>, targets: &Tensor<1, Int>, places: &[usize]) -> Observed {
        let [batch, seq, width] = hidden.dims();
        let data = places.iter().map(|place| *place as i64).collect();
        let data = TensorData::new::<i64, _>(data, [places.len()]);
        let hidden = hidden.clone().without_autodiff();
        let places = Tensor::<1, Int>::from_data(data, (&hidden.device(), DType::I64));
        let hidden = hidden
            .reshape([batch * seq, width])
            .select(0, places.clone());
        let targets = targets.clone().without_autodiff().select(0, places);
        let (entropies, tops) = self.projection(hidden).entropy_and_top();
        let right = tops.cast(targets.dtype()).equal(targets).float();
        Observed {
            entropy: entropies.cast(FloatDType::F32).sum(),
            right: right.cast(FloatDType::F32).sum(),
        }
    }
}
