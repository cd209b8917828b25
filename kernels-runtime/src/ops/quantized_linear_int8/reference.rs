use crate::ops::quantized_linear::{OwnedWeight, check, reference};
use crate::ops::same_dtype_as;
use burn::tensor::{DType, Tensor};

/// The number of elements of a row with a common scale.
const BLOCK: usize = 32;

/// Computes the layer with plain tensor operations, on any backend: the definition that the kernel is verified against.
///
/// # Panics
/// Panics if the last axis of `x` is not the weight's inputs.
#[track_caller]
pub fn of_rounded<const D: usize>(x: Tensor<D>, weight: &OwnedWeight) -> Tensor<D> {
    let shape = x.dims();
    check(&shape, weight);
    if x.shape().num_elements() == 0 {
        return reference(x, weight);
    }
    let dtype = x.dtype();
    let x = same_dtype_as(rounded(x), wider(dtype));
    same_dtype_as(reference(x, weight), dtype)
}

/// Returns the dtype that holds rounded rows: that of sums.
fn wider(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

/// Rounds rows as the kernel does, in f32, so that the same elements are halfway between two numbers.
fn rounded<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let shape = x.dims();
    let inputs = shape[D - 1];
    let x = same_dtype_as(x, DType::F32).reshape([-1, inputs as i64]);
    let [count, _] = x.dims();
    let (blocks, rest) = (inputs / BLOCK, inputs % BLOCK);
    let mut parts = Vec::new();
    if blocks > 0 {
        let whole = x.clone().slice([0..count, 0..blocks * BLOCK]);
        let whole = of_blocks(whole.reshape([count * blocks, BLOCK]));
        parts.push(whole.reshape([count, blocks * BLOCK]));
    }
    if rest > 0 {
        parts.push(of_blocks(x.slice([0..count, blocks * BLOCK..inputs])));
    }
    Tensor::cat(parts, 1).reshape(shape)
}

/// Rounds each row to multiples of 1/127 of its largest size. Rows of zeros, and of numbers so small that 127 times their inverse
/// is infinite, are zero.
fn of_blocks(blocks: Tensor<2>) -> Tensor<2> {
    let largest = blocks.clone().abs().max_dim(1);
    let factor = largest.zeros_like().add_scalar(127.0) / largest.clone();
    let is_small = factor.clone().is_inf();
    let factor = factor.mask_fill(is_small, 0.0);
    (blocks * factor).round() * largest.div_scalar(127.0)
}
