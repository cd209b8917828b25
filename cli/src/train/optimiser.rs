//! The optimiser.

use burn::grad_clipping::GradientClippingConfig;
use burn::optim::{AdamWConfig, ModuleOptimizer};
use burn_kernels::optim::InitFused;

/// Returns AdamW with β₁ 0.9, β₂ 0.95, ε 1e-8 and weight decay 0.01. The gradient of each parameter is clipped to norm
/// 1.
pub fn adamw() -> ModuleOptimizer {
    AdamWConfig::new()
        .with_beta_2(0.95)
        .with_epsilon(1e-8)
        .with_weight_decay(0.01)
        .with_grad_clipping(Some(GradientClippingConfig::Norm(1.0)))
        .init_fused()
}
