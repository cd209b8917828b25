//! The plain loop on the ranks of a group: with the feature `mpi`, `mpirun -n 2 ranks`. Without a launcher it has one rank.

use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::Device;
use burn_kernels::distributed::{Group, Options, sum_gradients};
use burn_kernels::optim::InitFused;
use own_crate::{Classifier, batch};

/// The sequences of a step, of which each rank has a share.
const BATCH: usize = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    burn_kernels::init()?;
    let group = Group::from_environment(&Options::default())?;
    let device = Device::flex().autodiff();
    // Models are the same on all ranks, and data is not.
    device.seed(7);
    let mut model = Classifier::new(&device);
    device.seed(100 + group.rank() as u64);
    let mut optimiser = AdamWConfig::new().init_fused();
    let loss_of = CrossEntropyLossConfig::new().init(&device);
    let share = BATCH / group.size() + usize::from(group.rank() < BATCH % group.size());
    for step in 0..30 {
        let (x, classes) = batch(share, 32, &device);
        // A part of the mean over the sequences of all ranks.
        let loss = loss_of.forward(model.forward(x), classes) * (share as f64 / BATCH as f64);
        let mut mean = [loss.clone().into_scalar::<f32>()];
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        let gradients = sum_gradients(&group, &model, gradients)?;
        model = optimiser.step(1e-3, model, gradients);
        group.all_reduce(&mut mean)?;
        if group.rank() == 0 && step % 10 == 9 {
            println!("step {}: loss {:.4}", step + 1, mean[0]);
        }
    }
    Ok(())
}
