use crate::ops::{compute_dtype, same_dtype_as};
use crate::semantics::{RmsNormKey, Rounding};
use burn::tensor::Tensor;

/// RMSNorm composed of plain tensor operations, on any backend: the definition that kernels are
/// verified against.
///
/// `x` is `[.., n]`, `weight` `[n]`. Half types are computed in f32 and rounded as `key` says; the
/// result has the dtype of `x`.
///
/// # Panics
/// `weight` does not have as many elements as the last axis of `x`.
pub fn reference<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<1>,
    eps: f64,
    key: RmsNormKey,
) -> Tensor<D> {
    super::check(&x, &weight);
    let dtype = x.dtype();
    let compute = compute_dtype(dtype);
    let x = same_dtype_as(x, compute);
    let mean_square = x.clone().square().mean_dim(D - 1);
    let normalised = x / mean_square.add_scalar(eps).sqrt();
    let normalised = match key.rounding {
        Rounding::Llama => same_dtype_as(same_dtype_as(normalised, dtype), compute),
        Rounding::Gemma => normalised,
    };
    let gain = same_dtype_as(weight, compute).add_scalar(key.offset.value());
    same_dtype_as(normalised * gain.unsqueeze(), dtype)
}
