//! Training and validation steps for burn-train.

use super::balance::LoadBalancingInput;
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{ExecutionError, FloatDType, Int, Tensor};
use burn::train::metric::{Adaptor, ItemLazy, LossInput};
use burn::train::{InferenceStep, TrainOutput, TrainStep};
use burn_kernels::optim::{rounded, widened};
use kernels_models::{CausalLm, Losses};

/// A language model in training.
#[derive(Module, Debug)]
pub struct Trainee {
    /// The model, in f32.
    pub model: CausalLm,
    /// The dtype that losses are computed in.
    #[module(skip)]
    pub dtype: FloatDType,
}

/// A batch of token ids `[b, s]`. Each token is also the target of the one before it.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The token ids.
    pub input_ids: Tensor<2, Int>,
}

/// The losses of one batch, of shape `[1]` and without a gradient.
pub struct StepOutput {
    /// Mean cross-entropy of the next token, in nats.
    loss: Tensor<1>,
    /// The load-balancing loss of a model with experts, without its coefficient.
    load_balancing: Option<Tensor<1>>,
    /// The number of sequences in the mean.
    sequences: usize,
}

impl Trainee {
    /// Returns the model in the dtype that losses are computed in.
    fn computed(&self) -> CausalLm {
        match self.dtype {
            FloatDType::F32 => self.model.clone(),
            half => rounded(&self.model, half),
        }
    }
}

impl StepOutput {
    fn new(losses: Losses, sequences: usize) -> Self {
        let plain = |loss: Tensor<1>| loss.without_autodiff();
        Self {
            loss: plain(losses.next_token),
            load_balancing: losses.load_balancing.map(plain),
            sequences,
        }
    }
}

impl TrainStep for Trainee {
    type Input = Batch;
    type Output = StepOutput;

    fn step(&self, batch: Batch) -> TrainOutput<StepOutput> {
        let [sequences, _] = batch.input_ids.dims();
        let model = self.computed();
        let losses = model.training_losses(batch.input_ids, None);
        let gradients = GradientsParams::from_grads(losses.total.backward(), &model);
        TrainOutput {
            grads: match self.dtype {
                FloatDType::F32 => gradients,
                _ => widened(gradients, &self.model),
            },
            item: StepOutput::new(losses, sequences),
        }
    }
}

impl InferenceStep for Trainee {
    type Input = Batch;
    type Output = StepOutput;

    fn step(&self, batch: Batch) -> StepOutput {
        let [sequences, _] = batch.input_ids.dims();
        let losses = self.computed().training_losses(batch.input_ids, None);
        StepOutput::new(losses, sequences)
    }
}

impl ItemLazy for StepOutput {
    fn sync(self) -> Result<Self, ExecutionError> {
        self.loss.device().flush()?;
        Ok(self)
    }
}

impl Adaptor<LoadBalancingInput> for StepOutput {
    fn adapt(&self) -> LoadBalancingInput {
        LoadBalancingInput {
            loss: self.load_balancing.clone(),
            sequences: self.sequences,
        }
    }
}

impl Adaptor<LossInput> for StepOutput {
    /// Repeats the loss for each sequence. burn-train weighs means by their number of values, so the validation loss is
    /// exact even if the last batch is smaller.
    fn adapt(&self) -> LossInput {
        LossInput::new(self.loss.clone().expand([self.sequences]))
    }
}
