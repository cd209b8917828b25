//! Low-rank adapters on annotated layers: the weights stay as they are, and only the adapters learn another task.

use burn::module::{Lora, Module};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Device, Int, Tensor};
use burn_kernels::optim::InitFused;
use own_crate::{CLASSES, Classifier, batch};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    burn_kernels::init()?;
    let device = Device::flex().autodiff();
    device.seed(7);

    let base = trained(Classifier::new(&device), 20, &device, |classes| classes);
    // `burn_kernels::nn::Linear` never composes `W + scale · a · b`, and the layers keep their kernels.
    let adapted = base.clone().apply_lora(Lora::new(8, 16.0));
    let adapted = trained(adapted, 40, &device, shifted);
    println!("{}", burn_kernels::report::report());

    let (x, classes) = batch(64, 32, &device);
    let right = |model: &Classifier, classes: Tensor<1, Int>| -> f32 {
        let chosen = model.forward(x.clone()).argmax(1).squeeze_dim::<1>(1);
        chosen.equal(classes).float().mean().into_scalar()
    };
    let before = right(&base, shifted(classes.clone()));
    let after = right(&adapted, shifted(classes.clone()));
    println!("right answers of the new task: {before:.2} before, {after:.2} with adapters");
    let kept = right(&base, classes);
    println!("right answers of the old task without adapters: {kept:.2}");
    assert!(
        after > 0.9 && kept > 0.9,
        "the adapters have to learn, and the weights to stay"
    );
    Ok(())
}

/// The new task: each class is called by the number of the next.
fn shifted(classes: Tensor<1, Int>) -> Tensor<1, Int> {
    (classes + 1).remainder_scalar(CLASSES as i64)
}

/// Trains what the model leaves free.
fn trained(
    mut model: Classifier,
    steps: usize,
    device: &Device,
    task: impl Fn(Tensor<1, Int>) -> Tensor<1, Int>,
) -> Classifier {
    let mut optimiser = AdamWConfig::new().init_fused();
    let loss_of = CrossEntropyLossConfig::new().init(device);
    for step in 0..steps {
        let (x, classes) = batch(16, 32, device);
        let loss = loss_of.forward(model.forward(x), task(classes));
        if step % 10 == 0 {
            println!("step {step}: loss {:.4}", loss.clone().into_scalar::<f32>());
        }
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimiser.step(1e-2, model, gradients);
    }
    model
}
