//! Burn's `Learner` on the ranks of a group: a step sums its gradients before it returns them.

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::Device;
use burn::train::metric::LossMetric;
use burn::train::{
    ClassificationOutput, InferenceStep, Learner, SupervisedTraining, TrainOutput, TrainStep,
};
use burn_kernels::distributed::{Group, Options, sum_gradients};
use burn_kernels::optim::InitFused;
use own_crate::trainee::{Batch, Trainee};
use own_crate::{Classifier, batch};
use std::sync::Arc;

/// The model of one rank.
#[derive(Module, Debug)]
struct Rank {
    trainee: Trainee,
    #[module(skip)]
    group: Group,
}

impl TrainStep for Rank {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let item = InferenceStep::step(&self.trainee, batch);
        // All ranks have as many sequences.
        let loss = item.loss.clone() / self.group.size() as f64;
        let grads = GradientsParams::from_grads(loss.backward(), self);
        let grads = sum_gradients(&self.group, self, grads).expect("all ranks train on");
        TrainOutput { grads, item }
    }
}

impl InferenceStep for Rank {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> ClassificationOutput {
        InferenceStep::step(&self.trainee, batch)
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
    DataLoaderBuilder::new(Random).batch_size(16).build(items)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    burn_kernels::init()?;
    let group = Group::from_environment(&Options::default())?;
    let device = Device::flex().autodiff();
    device.seed(7);
    let trainee = Trainee {
        model: Classifier::new(&device),
    };
    // Data is not the same on all ranks.
    device.seed(100 + group.rank() as u64);
    let rank = group.rank();
    let learner = Learner::new(Rank { trainee, group }, AdamWConfig::new().init_fused(), 1e-3);
    let folder = std::env::temp_dir().join(format!("own-crate-learner-{rank}"));
    let mut training = SupervisedTraining::new(&folder, batches(480), batches(64))
        .metrics((LossMetric::new(),))
        .num_epochs(1);
    if rank == 0 {
        training = training.summary();
    }
    match training.launch(learner).error {
        Some(error) => Err(error.to_string().into()),
        None => Ok(()),
    }
}
