use crate::cpu::product::{Gemm, Matrix, product_rounded, readable};
use crate::cpu::{Element, Output, contiguous};
use crate::ops::linear::Operands;
use crate::semantics::OutputLayout;
use burn::backend::Shape;
use burn::backend::flex::FlexTensor;

/// Returns the result of the layer.
pub(super) fn forward<T: Element>(operands: &Operands<FlexTensor>) -> FlexTensor
where
    T::Acc: Gemm,
{
    let weight = readable(operands.weight());
    let weight = matrix::<T>(&weight, operands.key().layout);
    let bias = operands.bias().map(loaded::<T>);
    rows_times(operands.x(), weight, bias.as_deref(), operands.result())
}

/// Returns `rows · weights + bias`, rounded once. `rows` is `[.., inputs]`, and the result has the given shape,
/// `[.., features]`.
pub(super) fn rows_times<T: Element>(
    rows: &FlexTensor,
    weights: Matrix<'_, T>,
    bias: Option<&[T::Acc]>,
    shape: Shape,
) -> FlexTensor
where
    T::Acc: Gemm,
{
    let rows = rows.to_contiguous();
    let mut result = Output::<T>::new(shape);
    product_rounded(contiguous::<T>(&rows), weights, bias, result.rest());
    result.finish()
}

/// Returns a weight as the matrix `inputs × outputs`.
pub(super) fn matrix<T: Element>(weight: &FlexTensor, layout: OutputLayout) -> Matrix<'_, T> {
    let matrix = Matrix::of(weight);
    match layout {
        OutputLayout::InputMajor => matrix,
        OutputLayout::OutputMajor => matrix.transposed(),
    }
}

/// Returns the elements of a bias in the type that is computed in.
fn loaded<T: Element>(bias: &FlexTensor) -> Vec<T::Acc> {
    let bias = bias.to_contiguous();
    contiguous::<T>(&bias)
        .iter()
        .map(|value| value.load())
        .collect()
}
