//! Tests that verification of first uses changes nothing in a program: neither the initial parameters nor the results.

use crate::common::model_dir;
use crate::counting::alone;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn_kernels::live::{self, Sampling};
use burn_kernels::optim::InitFused;
use kernels_models::ModelConfig;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Returns the losses and parameters of a few steps of a model with a fixed seed. Its parameters are drawn when they
/// are first used.
fn trained(name: &str, device: &Device, sampling: Sampling) -> (Vec<f32>, Vec<Vec<f32>>) {
    live::reset();
    let _scope = live::scope(sampling);
    device.seed(7);
    let config = ModelConfig::from_file(&model_dir(name).join("config.json")).unwrap();
    let mut model = config.init(device);
    let mut optimiser = AdamWConfig::new().init_fused();
    let mut losses = Vec::new();
    for _ in 0..3 {
        let ids = Distribution::Uniform(0.0, 100.0);
        let ids = Tensor::<2, Int>::random([2, 8], ids, device);
        let (_, loss) = model.loss(ids, None);
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        model = optimiser.step(1e-2, model, grads);
        losses.push(loss.into_scalar::<f32>());
    }
    // The next random numbers of the program.
    let next = Tensor::<1>::random([4], Distribution::Default, device);
    let mut parameters = vec![next.into_data().iter().collect()];
    for (_, parameter) in model.named_parameters() {
        parameters.push(parameter.iter().collect());
    }
    (losses, parameters)
}

/// Also models of all kinds of layers: embeddings, norms, rotations, attention, sparse blocks and the loss.
#[test]
fn threads_that_train_one_model_never_wait_for_each_other() {
    let (_alone, device) = (alone(), Device::flex().autodiff());
    for name in ["llama", "qwen3_moe", "mixtral"] {
        live::reset();
        let config = ModelConfig::from_file(&model_dir(name).join("config.json")).unwrap();
        let model = Arc::new(config.init(&device));
        let loss = {
            let (model, device) = (model.clone(), device.clone());
            move || {
                let ids = Distribution::Uniform(0.0, 100.0);
                model
                    .loss(Tensor::<2, Int>::random([2, 8], ids, &device), None)
                    .1
            }
        };
        // The checks of the first calls are here.
        drop(loss().backward());
        let (done, all) = mpsc::channel();
        for thread in 0..4 {
            let (loss, done) = (loss.clone(), done.clone());
            std::thread::spawn(move || {
                for _ in 0..20 {
                    let loss = loss();
                    // One thread only watches the loss.
                    if thread > 0 {
                        drop(loss.backward());
                    }
                }
                done.send(()).expect("the test waits");
            });
        }
        for _ in 0..4 {
            let waited = all.recv_timeout(Duration::from_secs(60));
            assert!(waited.is_ok(), "{name}: the threads wait for each other");
        }
    }
}

#[test]
fn training_is_the_same_with_and_without_it() {
    let _alone = alone();
    let plain = Device::flex().autodiff();
    let checkpointed = Device::flex().autodiff().gradient_checkpointing();
    for name in ["llama", "qwen3_moe", "mixtral"] {
        for device in [&plain, &checkpointed] {
            let expected = trained(name, device, Sampling::off());
            assert!(live::report().rows.is_empty());
            for sampling in [Sampling::default(), Sampling::first().whole()] {
                assert!(trained(name, device, sampling) == expected, "{name}");
                let report = live::report();
                assert!(report.rows.len() >= 3, "{report}");
                assert!(report.rows.iter().all(|row| row.skipped == 0), "{report}");
            }
        }
    }
}
