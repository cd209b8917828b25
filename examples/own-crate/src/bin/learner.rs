//! The same model under Burn's `Learner`. The annotated layers need nothing else.

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::{Dataset, InMemDataset};
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::AdamWConfig;
use burn::tensor::{Device, Int, Tensor};
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::{
    ClassificationOutput, InferenceStep, Learner, SupervisedTraining, TrainOutput, TrainStep,
};
use burn_kernels::optim::InitFused;
use own_crate::{Classifier, batch};
use std::sync::Arc;

/// Sequences of 32 tokens with their classes.
type Batch = (Tensor<3>, Tensor<1, Int>);

#[derive(Module, Debug)]
struct Trainee {
    model: Classifier,
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

/// Makes a batch of as many random sequences as there are items.
#[derive(Clone)]
struct Random;

impl Batcher<usize, Batch> for Random {
    fn batch(&self, items: Vec<usize>, device: &Device) -> Batch {
        batch(items.len(), 32, device)
    }
}

fn batches(sequences: usize) -> Arc<dyn DataLoader<Batch>> {
    let items = InMemDataset::new((0..sequences).collect());
    assert_eq!(items.len(), sequences);
    DataLoaderBuilder::new(Random).batch_size(16).build(items)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    burn_kernels::init()?;
    let device = Device::flex().autodiff();
    device.seed(7);
    let model = Trainee {
        model: Classifier::new(&device),
    };
    let learner = Learner::new(model, AdamWConfig::new().init_fused(), 1e-3);
    let folder = std::env::temp_dir().join("own-crate-learner");
    let result = SupervisedTraining::new(&folder, batches(480), batches(64))
        .metrics((LossMetric::new(), AccuracyMetric::new()))
        .num_epochs(1)
        .summary()
        .launch(learner);
    if let Some(error) = result.error {
        return Err(error.to_string().into());
    }
    println!("{}", burn_kernels::report::report());
    Ok(())
}
