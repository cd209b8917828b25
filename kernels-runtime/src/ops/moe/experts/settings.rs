use crate::semantics::MoeExpertsKey;
use serde::{Deserialize, Serialize};

/// The settings of a call besides its tensors.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The variant to compute.
    pub key: MoeExpertsKey,
    /// The limit of the clamp, not negative. Present exactly if the key has a clamp.
    pub limit: Option<f64>,
}
