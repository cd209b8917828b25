//! One training step and one validation step, as burn-train asks for them.

use burn::module::Module;
use burn::tensor::{ExecutionError, Int, Tensor};
use burn::train::metric::{Adaptor, ItemLazy, LossInput};
use burn::train::{InferenceStep, TrainOutput, TrainStep};
use kernels_models::CausalLm;

/// A language model in training.
#[derive(Module, Debug)]
pub struct Trainee {
    /// The model.
    pub model: CausalLm,
}

/// Token ids `[b, s]`; each token is also the target of the one before it.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The ids.
    pub input_ids: Tensor<2, Int>,
}

/// The loss of one batch.
pub struct StepOutput {
    /// Mean cross-entropy of the next token, in nats, shape `[1]`, without a gradient.
    loss: Tensor<1>,
    /// How many sequences the mean is over.
    sequences: usize,
}

impl Trainee {
    /// The mean cross-entropy of each next token.
    pub fn loss(&self, batch: Batch) -> Tensor<1> {
        self.model.loss(batch.input_ids, None).1
    }
}

impl TrainStep for Trainee {
    type Input = Batch;
    type Output = StepOutput;

    fn step(&self, batch: Batch) -> TrainOutput<StepOutput> {
        let [sequences, _] = batch.input_ids.dims();
        let loss = self.loss(batch);
        let gradients = loss.backward();
        let loss = loss.without_autodiff();
        TrainOutput::new(self, gradients, StepOutput { loss, sequences })
    }
}

impl InferenceStep for Trainee {
    type Input = Batch;
    type Output = StepOutput;

    fn step(&self, batch: Batch) -> StepOutput {
        let [sequences, _] = batch.input_ids.dims();
        let loss = self.loss(batch);
        StepOutput { loss, sequences }
    }
}

impl ItemLazy for StepOutput {
    fn sync(self) -> Result<Self, ExecutionError> {
        self.loss.device().flush()?;
        Ok(self)
    }
}

impl Adaptor<LossInput> for StepOutput {
    /// burn-train weighs a mean by its number of values: one for each sequence makes the
    /// validation loss exact when the last batch is smaller.
    fn adapt(&self) -> LossInput {
        LossInput::new(self.loss.clone().expand([self.sequences]))
    }
}
