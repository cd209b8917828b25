use serde::Serialize;
use std::fmt;

/// Training and inference differ in which implementations may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The tensors have autodiff enabled: only implementations with a gradient.
    Training,
    /// No gradient can be asked for.
    Inference,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Training => "training",
            Self::Inference => "inference",
        })
    }
}
