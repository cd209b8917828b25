//! Burn's `Learner` on several NPUs: each of its strategies trains the same weights as one NPU with the whole batch.

use burn::data::dataloader::DataLoaderBuilder;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::InMemDataset;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::SgdConfig;
use burn::tensor::distributed::{DistributedConfig, ReduceOperation};
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::metric::LossMetric;
use burn::train::{
    ExecutionStrategy, Learner, MultiDeviceOptim, SupervisedTraining, TrainingStrategy,
};
use burn_kernels::npu;
use own_crate::trainee::{Batch, Trainee};
use own_crate::{CLASSES, Classifier, WIDTH};

/// The number of sequences, which are one batch.
const ALL: usize = 16;
const LENGTH: usize = 4;

/// Makes sequences that their numbers determine.
#[derive(Clone)]
struct Numbered;

impl Batcher<usize, Batch> for Numbered {
    fn batch(&self, items: Vec<usize>, device: &Device) -> Batch {
        let places = items.iter().flat_map(|item| {
            let each = LENGTH * WIDTH;
            item * each..(item + 1) * each
        });
        let values: Vec<f32> = places.map(|place| (place as f32 * 0.37).sin()).collect();
        let x = TensorData::new(values, [items.len(), LENGTH, WIDTH]);
        let classes: Vec<i32> = items.iter().map(|item| (item % CLASSES) as i32).collect();
        let classes = TensorData::new(classes, [items.len()]);
        (
            Tensor::from_data(x, device),
            Tensor::from_data(classes, device),
        )
    }
}

/// The rate of a step by the mean of all gradients.
const RATE: f64 = 0.1;

/// Returns all weights after three steps, each on all sequences, in batches of `size` for each device.
fn trained(strategy: ExecutionStrategy, size: usize, rate: f64, model: &Trainee) -> Vec<f32> {
    let batches = || {
        let items = InMemDataset::new((0..ALL).collect());
        DataLoaderBuilder::new(Numbered)
            .batch_size(size)
            .build(items)
    };
    let folder = tempfile::tempdir().unwrap();
    let learner = Learner::new(model.clone(), SgdConfig::new().init(), rate);
    let result = SupervisedTraining::new(folder.path(), batches(), batches())
        .metrics((LossMetric::new(),))
        .num_epochs(3)
        .with_application_logger(None)
        .with_training_strategy(TrainingStrategy::Default(strategy))
        .launch(learner);
    assert!(result.error.is_none(), "{:?}", result.error);
    weights(&result.model)
}

struct Values(Vec<f32>);

impl ModuleVisitor for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let values = param.val().without_autodiff().into_data();
        self.0.extend(values.try_into_vec::<f32>().unwrap());
    }
}

fn weights(model: &Trainee) -> Vec<f32> {
    let mut values = Values(Vec::new());
    model.visit(&mut values);
    values.0
}

#[test]
fn each_strategy_trains_the_weights_of_one_npu() {
    burn_kernels::init().unwrap();
    let found = npu::devices().expect("LD_LIBRARY_PATH names CANN or its emulator");
    let devices: Vec<Device> = found.into_iter().map(Device::autodiff).collect();
    assert_eq!(devices.len(), 2, "the emulator has two NPUs");
    let cpu = Device::flex().autodiff();
    cpu.seed(7);
    let model = Trainee {
        model: Classifier::new(&cpu),
    };
    let before = weights(&model);
    let on_cpu = trained(ExecutionStrategy::single(cpu), ALL, RATE, &model);
    let learnt = on_cpu
        .iter()
        .zip(&before)
        .map(|(now, then)| (now - then).abs());
    assert!(learnt.fold(0.0, f32::max) > 1e-3, "the weights change");
    let check = |name: &str, strategy, size, rate| {
        let found = trained(strategy, size, rate, &model);
        assert_eq!(found.len(), on_cpu.len(), "{name}");
        for (found, expected) in found.iter().zip(&on_cpu) {
            // Weights are below 1, and sums of other orders are some roundings apart.
            let apart = (found - expected).abs();
            assert!(apart < 1e-5, "{name}: {found} beside {expected}");
        }
    };
    let one = ExecutionStrategy::single(devices[0].clone());
    check("single", one, ALL, RATE);
    // These add up the gradients of the means of both halves, which is twice the gradient of the mean.
    let several = |optimiser| ExecutionStrategy::multi(devices.clone(), optimiser);
    let (main, sharded) = (
        MultiDeviceOptim::OptimMainDevice,
        MultiDeviceOptim::OptimSharded,
    );
    check("main", several(main), ALL / 2, RATE / 2.0);
    check("sharded", several(sharded), ALL / 2, RATE / 2.0);
    // Made last: while its server runs, Burn waits in every backward pass for all devices.
    let mean = DistributedConfig {
        all_reduce_op: ReduceOperation::Mean,
    };
    let ddp = ExecutionStrategy::ddp(devices.clone(), mean);
    check("ddp", ddp, ALL / 2, RATE);
}
