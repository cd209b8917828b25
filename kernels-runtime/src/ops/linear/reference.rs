use super::Inputs;
use crate::ops::{compute_dtype, same_dtype_as};
use crate::semantics::{LinearKey, OutputLayout};
use burn::backend::Shape;
use burn::tensor::{Tensor, module};

/// Computes the linear layer with plain tensor operations, on any backend: the definition that kernels are verified
/// against.
///
/// Half types are computed in f32 and rounded once. The result is `[.., outputs]`, in the dtype of `x`.
///
/// # Panics
/// Panics if the inputs don't match the key, or if the shapes don't fit together.
#[track_caller]
pub fn reference<const D: usize>(inputs: Inputs<D>, key: LinearKey) -> Tensor<D> {
    let operands = inputs.checked(key);
    let (sizes, shape) = (operands.sizes(), operands.result());
    let dtype = inputs.x.dtype();
    let compute = compute_dtype(dtype);
    let x = same_dtype_as(inputs.x, compute);
    let weight = same_dtype_as(inputs.weight, compute);
    let weight = match key.layout {
        OutputLayout::InputMajor => weight,
        OutputLayout::OutputMajor => weight.swap_dims(0, 1),
    };
    let bias = inputs.bias.map(|bias| same_dtype_as(bias, compute));
    let y = match [sizes.rows, sizes.inputs, sizes.outputs].contains(&0) {
        true => without_terms(x, weight, bias, shape),
        false => module::linear(x, weight, bias),
    };
    same_dtype_as(y, dtype)
}

/// Returns the bias, or zeros, where there are no elements or no terms. Depends on all operands, so that their gradients
/// are zero.
fn without_terms<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    shape: Shape,
) -> Tensor<D> {
    let zeros: Tensor<1> = weight.sum_dim(0).squeeze_dim(0).mul_scalar(0.0);
    let row = match bias {
        Some(bias) => zeros + bias,
        None => zeros,
    };
    x.sum_dim(D - 1).mul_scalar(0.0) + row.expand(shape)
}
