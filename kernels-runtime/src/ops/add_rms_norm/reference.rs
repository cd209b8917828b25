use super::operands::check;
use super::{Inputs, Settings};
use crate::ops::rms_norm;
use crate::semantics::AddRmsNormKey;
use burn::tensor::Tensor;

/// The sum and its RMSNorm composed of plain tensor operations, on any backend: the definition that kernels are
/// verified against. Returns `y` and `sum`.
///
/// The sum has the dtype of its terms; [`rms_norm::reference`](rms_norm::reference()) says how the norm rounds.
///
/// # Panics
/// The inputs or settings are not those of the key, or the shapes don't fit together.
#[track_caller]
pub fn reference<const D: usize>(
    inputs: Inputs<D>,
    settings: Settings,
    key: AddRmsNormKey,
) -> (Tensor<D>, Tensor<D>) {
    check(&inputs, settings, key);
    let sum = inputs.x + inputs.residual;
    let norm = rms_norm::Inputs {
        x: sum.clone(),
        weight: inputs.weight,
        gate: inputs.gate,
    };
    (rms_norm::reference(norm, settings, key.norm()), sum)
}
