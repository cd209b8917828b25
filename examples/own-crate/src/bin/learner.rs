//! The same model under Burn's `Learner`. The annotated layers need nothing else.

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::{Dataset, InMemDataset};
use burn::optim::AdamWConfig;
use burn::tensor::Device;
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::{Learner, SupervisedTraining};
use burn_kernels::optim::InitFused;
use own_crate::trainee::{Batch, Trainee};
use own_crate::{Classifier, batch};
use std::sync::Arc;

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
