//! The training that is measured.

use crate::optimiser::{self, AdamW, Optimiser};
use crate::preset::Preset;
use anyhow::Context;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Distribution, FloatDType, Int, Tensor};
use burn_kernels::optim::{rounded, widened};
use kernels_models::CausalLm;

/// The sequences of a step and the tokens of a sequence, as `kernels train` has them by default.
pub const BATCH: [usize; 2] = [16, 128];

/// The rate after the warmup of `kernels train`.
const LEARNING_RATE: f64 = 3e-3;

/// The default model of `kernels train`, with the program's optimiser, on bytes at random.
pub struct Training {
    /// The model, absent only while the optimiser holds it.
    model: Option<CausalLm>,
    optimiser: Optimiser,
    input_ids: Tensor<2, Int>,
    /// The dtype that losses are computed in, as `kernels train --dtype` sets it.
    dtype: FloatDType,
}

impl Training {
    pub fn new(dtype: FloatDType) -> anyhow::Result<Self> {
        let device = Device::flex().autodiff();
        device.seed(42);
        let config = Preset::Qwen3.config(BATCH[1])?;
        Ok(Self {
            model: Some(config.init(&device)),
            optimiser: Optimiser::new(AdamW::FROM_SCRATCH),
            input_ids: Tensor::random(BATCH, Distribution::Uniform(0.0, 255.0), &device),
            dtype,
        })
    }

    /// Takes a step, and returns the loss before it.
    pub fn step(&mut self) -> anyhow::Result<f32> {
        let model = self.model.take().context("an earlier step failed")?;
        let (loss, gradients) = match self.dtype {
            FloatDType::F32 => self.gradients(&model)?,
            half => {
                let (loss, gradients) = self.gradients(&rounded(&model, half))?;
                (loss, widened(gradients, &model))
            }
        };
        let norm = optimiser::norm(&model, &gradients)?;
        let model = self.optimiser.step(LEARNING_RATE, model, gradients, norm);
        self.model = Some(model);
        Ok(loss)
    }

    /// Returns the loss of a model and its gradients.
    fn gradients(&self, model: &CausalLm) -> anyhow::Result<(f32, GradientsParams)> {
        let losses = model.training_losses(self.input_ids.clone(), None);
        let loss = losses.next_token.clone().without_autodiff();
        let gradients = GradientsParams::from_grads(losses.total.backward(), model);
        Ok((loss.cast(FloatDType::F32).try_into_scalar()?, gradients))
    }
}
