use crate::semantics::MoeExpertsKey;
use serde::{Deserialize, Serialize};

/// What a call computes besides its tensors.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The semantics.
    pub key: MoeExpertsKey,
    /// The clamp's limit, if the key says that there is one.
    pub limit: Option<f64>,
}

/// Which gradients are wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// That of the tokens.
    pub x: bool,
    /// That of the routing weights.
    pub routing: bool,
    /// Those of the experts' weights, in their groups.
    pub weights: Vec<Vec<bool>>,
}
