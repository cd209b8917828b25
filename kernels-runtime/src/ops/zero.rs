//! Results without elements. They depend on the operands, whose gradients are then zero and not missing.

use burn::backend::Shape;
use burn::tensor::Tensor;

/// Returns zero, which depends on a tensor.
pub(crate) fn zero<const D: usize>(tensor: Tensor<D>) -> Tensor<1> {
    // Not a product with zero, which keeps NaN and infinities.
    let all = tensor.clone().detach().equal_elem(0.0);
    let all = all.clone().bool_or(all.bool_not());
    tensor.mask_fill(all, 0.0).sum()
}

/// Returns a tensor without elements. `zero` is the sum of the [zeros](zero) of the operands.
pub(crate) fn empty<const D: usize>(zero: Tensor<1>, shape: impl Into<Shape>) -> Tensor<D> {
    zero.reshape([1; D]).expand(shape.into())
}
