//! The settings of Burn's AdamW. Their fields are private, so they are read from their serialised form.

use burn::grad_clipping::GradientClippingConfig;
use burn::optim::AdamWConfig;
use serde::Deserialize;

/// The fields of [`AdamWConfig`], under Burn's names.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) beta_1: f32,
    pub(super) beta_2: f32,
    pub(super) epsilon: f32,
    pub(super) weight_decay: f32,
    pub(super) cautious_weight_decay: bool,
    pub(super) amsgrad: bool,
    pub(super) grad_clipping: Option<GradientClippingConfig>,
}

/// Reads the settings.
///
/// # Panics
/// Panics if Burn's settings have other fields than those of the release that this code was written for. Their meaning
/// is not known here.
pub(super) fn read(config: &AdamWConfig) -> Settings {
    let settings = serde_json::to_value(config).and_then(serde_json::from_value);
    settings.unwrap_or_else(|error| {
        panic!(
            "this release of burn-kernels does not know the AdamW of this release of Burn: {error}"
        )
    })
}
