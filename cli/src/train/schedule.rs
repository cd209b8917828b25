//! The schedule of the learning rate.

use super::settings::Settings;
use anyhow::anyhow;
use burn::lr_scheduler::LrSchedulerConfig;
use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::lr_scheduler::linear::LinearLrSchedulerConfig;
use burn::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use burn::lr_scheduler::sequential::SequentialLrSchedulerConfig;

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
