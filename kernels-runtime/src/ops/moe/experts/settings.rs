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

/// The flags of the wanted gradients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// True if the gradient of the tokens is wanted.
    pub x: bool,
    /// True if the gradient of the routing weights is wanted.
    pub routing: bool,
    /// One flag for each weight tensor, in the groups of the weights. True if the gradient is wanted.
    pub weights: Vec<Vec<bool>>,
}
