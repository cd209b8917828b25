//! Groups of processes that train together, and the sums of their gradients.
//!
//! A loop of one process becomes one of many by two changes: each rank reads its share of the data, and the gradients are
//! summed before the optimiser takes them.
//!
#![cfg_attr(feature = "optim", doc = "```")]
#![cfg_attr(not(feature = "optim"), doc = "```ignore")]
//! use burn::nn::LinearConfig;
//! use burn::optim::{AdamWConfig, GradientsParams};
//! use burn::tensor::{Device, Tensor};
//! use burn_kernels::distributed::{Group, Options, sum_gradients};
//! use burn_kernels::optim::InitFused;
//!
//! // Without a launcher, a group of one.
//! let group = Group::from_environment(&Options::default())?;
//! let device = Device::flex().autodiff();
//! device.seed(7); // all ranks begin with the same weights
//! let mut model = LinearConfig::new(4, 2).init(&device);
//! let mut optimiser = AdamWConfig::new().init_fused();
//! let rows = Tensor::<2>::ones([3, 4], &device) * (group.rank() + 1) as f32;
//! // The mean over the rows of all ranks.
//! let loss = model.forward(rows).square().mean() / group.size() as f32;
//! let gradients = GradientsParams::from_grads(loss.backward(), &model);
//! let gradients = sum_gradients(&group, &model, gradients)?;
//! model = optimiser.step(1e-3, model, gradients);
//! # let _ = model;
//! # Ok::<(), burn_kernels::distributed::Error>(())
//! ```

#[cfg(feature = "optim")]
mod gradients;

#[cfg(feature = "optim")]
pub use gradients::sum_gradients;
pub use kernels_distributed::*;
