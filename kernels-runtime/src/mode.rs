use burn::backend::{DispatchTensor, DispatchTensorKind};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The mode of a call. It decides which implementations may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Autodiff is enabled for the tensors. Only implementations with a gradient may run.
    Training,
    /// No gradient can be requested.
    Inference,
}

impl Mode {
    /// Returns the mode of a call with this tensor alone.
    #[inline]
    pub(crate) fn of(tensor: &DispatchTensor) -> Self {
        match tensor.kind {
            DispatchTensorKind::Autodiff(_) => Self::Training,
            _ => Self::Inference,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Training => "training",
            Self::Inference => "inference",
        })
    }
}
