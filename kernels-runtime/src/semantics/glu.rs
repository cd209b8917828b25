use serde::{Deserialize, Serialize};
use std::fmt;

/// What changes the result of a gated linear unit, `y = activation(gate) · up`
/// (Shazeer, arXiv:2002.05202).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GluKey {
    /// The function applied to the gate.
    pub activation: Activation,
}

/// The activation of a gated linear unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// `silu(a) = a · sigmoid(a)`, which makes the unit a SwiGLU.
    Silu,
}

impl fmt::Display for GluKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let activation = match self.activation {
            Activation::Silu => "silu",
        };
        write!(f, "glu(activation={activation})")
    }
}
