//! Losses and gradients of batches.

use super::batch::Batch;
use super::random::SplitMix64;
use burn::module::Module;
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::{Device, FloatDType, Gradients, Tensor};
use burn_kernels::optim::{rounded, widened};
use kernels_models::{CausalLm, Losses};

/// The losses of a step or a validation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    /// Mean cross-entropy of the targets, in nats.
    pub cross_entropy: f64,
    /// The load-balancing loss of a mixture of experts, without its coefficient.
    pub load_balancing: Option<f64>,
}

/// A mean of losses, each weighted by its number of targets.
#[derive(Default)]
pub struct Mean {
    sum: Loss,
    weight: f64,
}

impl Mean {
    /// Adds the loss of a batch.
    pub fn add(&mut self, loss: Loss, targets: usize) {
        let weight = targets as f64;
        self.sum.cross_entropy += loss.cross_entropy * weight;
        if let Some(balance) = loss.load_balancing {
            *self.sum.load_balancing.get_or_insert(0.0) += balance * weight;
        }
        self.weight += weight;
    }

    /// Adds the losses of another mean.
    pub fn merge(&mut self, other: Self) {
        self.sum.cross_entropy += other.sum.cross_entropy;
        if let Some(balance) = other.sum.load_balancing {
            *self.sum.load_balancing.get_or_insert(0.0) += balance;
        }
        self.weight += other.weight;
    }

    /// Returns the mean. Without a target it is no number.
    pub fn get(self) -> Loss {
        Loss {
            cross_entropy: self.sum.cross_entropy / self.weight,
            load_balancing: self.sum.load_balancing.map(|sum| sum / self.weight),
        }
    }
}

/// The way in which losses and gradients are computed.
#[derive(Clone, Copy)]
pub struct Method<'a> {
    /// The dtype that losses and gradients are computed in.
    pub dtype: FloatDType,
    /// The device of the batches: with autodiff, if gradients are wanted.
    pub device: &'a Device,
    /// `None` to keep the activations of all layers. Otherwise each layer is computed twice, and its random numbers follow
    /// from this seed.
    pub recompute: Option<u64>,
}

/// Computes the losses of a model.
pub struct Pass<'a> {
    model: &'a CausalLm,
    /// The model in the dtype that losses are computed in.
    computed: CausalLm,
    method: Method<'a>,
}

impl<'a> Pass<'a> {
    /// Prepares a pass. Its gradients are those of `model`, whose parameters keep their own dtype.
    pub fn new(model: &'a CausalLm, method: Method<'a>) -> Self {
        let computed = match method.dtype {
            FloatDType::F32 => model.clone(),
            half => rounded(model, half),
        };
        Self {
            model,
            computed,
            method,
        }
    }

    /// Returns the loss of a batch.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn loss(&self, batch: &Batch) -> anyhow::Result<Loss> {
        read(&self.losses(batch))
    }

    /// Returns the losses of batches, and their share of the gradients of a step with `all` targets.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn gradients(
        &self,
        batches: &[Batch],
        all: usize,
    ) -> anyhow::Result<(Mean, GradientsParams)> {
        let mut mean = Mean::default();
        let mut sum = GradientsAccumulator::new();
        for (number, batch) in batches.iter().enumerate() {
            let weight = batch.targets() as f64 / all as f64;
            let take = |gradients| sum.accumulate(self.model, self.of_parameters(gradients));
            let loss = match self.method.recompute {
                Some(seed) => {
                    let seed = SplitMix64::of(seed, number as u64).next();
                    self.recomputed(batch, (weight, seed), take)?
                }
                None => self.kept(batch, weight, take)?,
            };
            mean.add(loss, batch.targets());
        }
        Ok((mean, sum.grads()))
    }

    /// Passes on the gradients of a batch, from one graph of the whole model.
    fn kept(
        &self,
        batch: &Batch,
        weight: f64,
        mut take: impl FnMut(Gradients),
    ) -> anyhow::Result<Loss> {
        let losses = self.losses(batch);
        let loss = read(&losses)?;
        let total = match weight {
            1.0 => losses.total,
            _ => losses.total * weight,
        };
        take(total.backward());
        Ok(loss)
    }

    /// Passes on the gradients of a batch, layer by layer.
    fn recomputed(
        &self,
        batch: &Batch,
        weight_and_seed: (f64, u64),
        take: impl FnMut(Gradients),
    ) -> anyhow::Result<Loss> {
        let sequences = batch.sequences(self.method.device);
        read(
            &self
                .computed
                .recomputed_losses(sequences, weight_and_seed, take),
        )
    }

    fn losses(&self, batch: &Batch) -> Losses {
        match batch.has_targets() {
            true => self
                .computed
                .sequence_losses(batch.sequences(self.method.device)),
            false => self
                .computed
                .training_losses(batch.input_ids(self.method.device), None),
        }
    }

    /// Returns the gradients of parameters in their own dtypes.
    fn of_parameters(&self, gradients: Gradients) -> GradientsParams {
        let gradients = GradientsParams::from_grads(gradients, &self.computed);
        match self.method.dtype {
            FloatDType::F32 => gradients,
            _ => widened(gradients, self.model),
        }
    }
}

fn read(losses: &Losses) -> anyhow::Result<Loss> {
    let number = |loss: &Tensor<1>| loss.clone().without_autodiff().try_into_scalar::<f64>();
    Ok(Loss {
        cross_entropy: number(&losses.next_token)?,
        load_balancing: losses.load_balancing.as_ref().map(number).transpose()?,
    })
}

/// Returns a model that losses can be computed of without gradients.
pub fn without_gradients(model: &CausalLm) -> CausalLm {
    model.clone().valid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_weighted_by_targets() {
        let loss = |cross_entropy, load_balancing| Loss {
            cross_entropy,
            load_balancing,
        };
        let mut mean = Mean::default();
        mean.add(loss(1.0, Some(2.0)), 1);
        let mut other = Mean::default();
        other.add(loss(3.0, Some(4.0)), 3);
        mean.merge(other);
        assert_eq!(mean.get(), loss(2.5, Some(3.5)));
        assert!(Mean::default().get().cross_entropy.is_nan());
    }
}
