//! The training that is measured.

use crate::optimiser::adamw;
use crate::preset::Preset;
use anyhow::Context;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Distribution, Int, Tensor};
use kernels_models::CausalLm;

/// The sequences of a step and the tokens of a sequence, as `kernels train` has them by default.
pub const BATCH: [usize; 2] = [16, 128];

/// The rate after the warmup of `kernels train`.
const LEARNING_RATE: f64 = 3e-3;

/// The default model of `kernels train`, with the program's optimiser, on bytes at random.
pub struct Training {
    /// The model, absent only while the optimiser holds it.
    model: Option<CausalLm>,
    optimiser: ModuleOptimizer,
    input_ids: Tensor<2, Int>,
}

impl Training {
    pub fn new() -> anyhow::Result<Self> {
        let device = Device::flex().autodiff();
        device.seed(42);
        let config = Preset::Qwen3.config(BATCH[1])?;
        Ok(Self {
            model: Some(config.init(&device)),
            optimiser: adamw(),
            input_ids: Tensor::random(BATCH, Distribution::Uniform(0.0, 255.0), &device),
        })
    }

    /// Takes a step, and returns the loss before it.
    pub fn step(&mut self) -> anyhow::Result<f32> {
        let model = self.model.take().context("an earlier step failed")?;
        let losses = model.training_losses(self.input_ids.clone(), None);
        let loss = losses.next_token.clone().without_autodiff();
        let gradients = GradientsParams::from_grads(losses.total.backward(), &model);
        self.model = Some(self.optimiser.step(LEARNING_RATE, model, gradients));
        Ok(loss.into_scalar::<f32>())
    }
}
