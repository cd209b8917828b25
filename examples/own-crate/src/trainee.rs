//! The classifier as Burn's `Learner` trains it.

use crate::Classifier;
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::tensor::{Int, Tensor};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};

/// Sequences `[size, sequence, width]` with their classes `[size]`.
pub type Batch = (Tensor<3>, Tensor<1, Int>);

/// A classifier and the mean of its losses.
#[derive(Module, Debug)]
pub struct Trainee {
    pub model: Classifier,
}

impl Trainee {
    fn classify(&self, (x, classes): Batch) -> ClassificationOutput {
        let logits = self.model.forward(x);
        let loss = CrossEntropyLossConfig::new().init(&logits.device());
        let loss = loss.forward(logits.clone(), classes.clone());
        ClassificationOutput::new(loss, logits, classes)
    }
}

impl TrainStep for Trainee {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Trainee {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> ClassificationOutput {
        self.classify(batch)
    }
}
