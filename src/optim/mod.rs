//! Burn's optimisers with fused kernels.
//!
//! [`FusedAdamW`] is AdamW that updates a parameter in one operation. It is made from Burn's own settings and replaces
//! Burn's optimiser, in your own loop or with Burn's `Learner`:
//!
//! ```
//! use burn::nn::LinearConfig;
//! use burn::optim::{AdamWConfig, GradientsParams};
//! use burn::tensor::{Device, Tensor};
//! use burn_kernels::optim::InitFused;
//!
//! let device = Device::flex().autodiff();
//! let mut model = LinearConfig::new(4, 2).init(&device);
//! let mut optimiser = AdamWConfig::new().with_weight_decay(0.01).init_fused();
//! let loss = model.forward(Tensor::<2>::ones([3, 4], &device)).square().mean();
//! let gradients = GradientsParams::from_grads(loss.backward(), &model);
//! model = optimiser.step(1e-3, model, gradients);
//! # let _ = model;
//! ```
//!
//! Its state has the type of Burn's AdamW, so each of the two reads the other's records. The step is a site of the
//! kernel `npu_fused_adam_w`, like any annotated layer: policies can switch it off, and the report counts it. If no
//! kernel can run, Burn's own step does.
//!
//! [`rounded`] and [`widened`] train in bf16 with parameters in f32.

mod adam_w;
mod mixed;
mod settings;

pub use adam_w::FusedAdamW;
pub use mixed::{rounded, widened};

use burn::optim::{AdamWConfig, ModuleOptimizer};

/// A trait that makes optimisers with fused kernels from Burn's settings.
pub trait InitFused {
    /// The optimiser of one parameter, for [`ModuleOptimizer::with_group`].
    type Optimizer;

    /// Builds the optimiser of one parameter, as the configuration's `build` does.
    fn build_fused(&self) -> Self::Optimizer;

    /// Builds the optimiser of a whole module with the configured clipping of gradients, as the configuration's `init`
    /// does.
    fn init_fused(&self) -> ModuleOptimizer;
}

impl InitFused for AdamWConfig {
    type Optimizer = FusedAdamW;

    fn build_fused(&self) -> FusedAdamW {
        FusedAdamW::new(self)
    }

    fn init_fused(&self) -> ModuleOptimizer {
        let optimiser = ModuleOptimizer::from(self.build_fused());
        match settings::read(self).grad_clipping {
            Some(clipping) => optimiser.with_grad_clipping(clipping.init()),
            None => optimiser,
        }
    }
}
