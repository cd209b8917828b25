//! Tests that verification of first uses changes nothing in a program: neither the initial parameters nor the results.

mod common;

use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn_kernels::live::{self, Sampling};
use burn_kernels::optim::InitFused;
use common::model_dir;
use kernels_models::ModelConfig;

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

/// It is one test, because resetting the record of checks affects the whole process.
#[test]
fn training_is_the_same_with_and_without_it() {
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
