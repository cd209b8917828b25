use super::{Inputs, Settings};
use crate::kernel::rounded;
use crate::ops::{compute_dtype, mean, same_dtype_as};
use crate::semantics::LayerNormKey;
use burn::tensor::Tensor;

/// Computes LayerNorm with plain tensor operations, on any backend: the definition that kernels are verified against.
///
/// Half types are computed in f32 and rounded once, as PyTorch does. The result has the shape and dtype of `x`.
///
/// # Panics
/// Panics if the inputs don't match the key, or if the shapes don't fit together.
#[track_caller]
pub fn reference<const D: usize>(
    inputs: Inputs<D>,
    settings: Settings,
    key: LayerNormKey,
) -> Tensor<D> {
    inputs.checked(settings, key);
    if inputs.x.dims()[D - 1] == 0 {
        // Burn's operations don't repeat what has no elements.
        return inputs.x;
    }
    let dtype = inputs.x.dtype();
    let compute = compute_dtype(dtype);
    let x = same_dtype_as(inputs.x, compute);
    let centred = x.clone() - rounded(mean(x));
    let variance = rounded(mean(centred.clone().square()));
    let normal = rounded(centred / variance.add_scalar(settings.eps).sqrt());
    let parameter = |vector: Tensor<1>| same_dtype_as(vector, compute).unsqueeze();
    let scaled = rounded(normal * parameter(inputs.weight));
    let y = match inputs.bias {
        Some(bias) => scaled + parameter(bias),
        None => scaled,
    };
    same_dtype_as(y, dtype)
}
