use super::{Inputs, Settings};
use crate::kernel::rounded;
use crate::ops::rms_norm;
use crate::semantics::AddRmsNormKey;
use burn::tensor::Tensor;

/// Computes the sum and its RMSNorm with plain tensor operations, on any backend: the definition that kernels are
/// verified against. Returns `y` and `sum`.
///
/// The sum has the dtype of its terms. [`rms_norm::reference`](rms_norm::reference()) documents how the norm rounds.
///
/// # Panics
/// Panics if the inputs or settings don't match the key, or if the shapes don't fit together.
#[track_caller]
pub fn reference<const D: usize>(
    inputs: Inputs<D>,
    settings: Settings,
    key: AddRmsNormKey,
) -> (Tensor<D>, Tensor<D>) {
    inputs.checked(settings, key);
    let sum = inputs.x + inputs.residual;
    let norm = rms_norm::Inputs {
        x: rounded(sum.clone()),
        weight: inputs.weight,
        gate: inputs.gate,
    };
    (rms_norm::reference(norm, settings, key.norm()), sum)
}
