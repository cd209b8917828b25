//! A plain Burn training loop with annotated layers, a fused AdamW, and a benchmark of the training step.

use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::Device;
use burn_kernels::measure;
use burn_kernels::optim::InitFused;
use burn_kernels::threads::on_pool;
use own_crate::{Classifier, batch};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // Steps reuse the memory that the step before freed, and operations begin without waking a thread.
    burn_kernels::memory::keep_freed();
    on_pool(train)
}

fn train() -> Result<(), Box<dyn Error + Send + Sync>> {
    // Reports an invalid value of `BURN_KERNELS` here and not in the first layer.
    burn_kernels::init()?;
    let device = Device::flex().autodiff();
    device.seed(7);
    println!("{}", burn_kernels::dispatch::plan(&device)?);

    let mut model = Classifier::new(&device);
    let mut optimiser = AdamWConfig::new().init_fused();
    let loss_of = CrossEntropyLossConfig::new().init(&device);
    let mut last = f32::NAN;
    for step in 0..30 {
        let (x, classes) = batch(16, 32, &device);
        let loss = loss_of.forward(model.forward(x), classes);
        last = loss.clone().into_scalar();
        if step % 10 == 0 {
            println!("step {step}: loss {last:.4}");
        }
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimiser.step(1e-3, model, gradients);
    }
    println!("the last loss: {last:.4}\n");
    println!("{}", burn_kernels::report::report());

    let (x, classes) = batch(16, 128, &device);
    let step = || {
        let loss = loss_of.forward(model.forward(x.clone()), classes.clone());
        drop(loss.backward());
    };
    println!("{}", measure(step)?);
    Ok(())
}
