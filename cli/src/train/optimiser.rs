//! AdamW and its learning rate.

use super::settings::Settings;
use anyhow::anyhow;
use burn::grad_clipping::GradientClippingConfig;
use burn::lr_scheduler::LrSchedulerConfig;
use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::lr_scheduler::linear::LinearLrSchedulerConfig;
use burn::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use burn::lr_scheduler::sequential::SequentialLrSchedulerConfig;
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

/// Returns the schedule of the learning rate: linear warmup over a tenth of the steps, at most a hundred, then a cosine
/// down to a tenth of the highest rate.
pub fn schedule(settings: &Settings) -> anyhow::Result<ModuleLrScheduler> {
    let warmup = (settings.steps / 10).clamp(1, 100);
    let rest = settings.steps.saturating_sub(warmup).max(1);
    let rising = LinearLrSchedulerConfig::new(settings.lr / warmup as f64, settings.lr, warmup);
    let falling =
        CosineAnnealingLrSchedulerConfig::new(settings.lr, rest).with_min_lr(settings.lr / 10.0);
    let schedulers = vec![
        LrSchedulerConfig::Linear(rising),
        LrSchedulerConfig::Cosine(falling),
    ];
    SequentialLrSchedulerConfig::new(schedulers, vec![warmup])
        .init()
        .map_err(|error| anyhow!("the learning rate schedule: {error}"))
}
