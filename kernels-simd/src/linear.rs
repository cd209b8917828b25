//! Linear layers.
//!
//! f64 is multiplied by the `gemm` crate as Burn's own products are, with the same bits, except for large products with
//! many more terms than rows and columns, which are the sums of two. So is f32, except for large matrices on processors
//! with AMX or with AVX2 alone, where this crate's products are faster. Half types are multiplied by the products of this
//! crate, which sum in f32: in bf16 two elements at a time, where there is an instruction for it. Few rows, as in decoding,
//! read each weight once, in order, in every type.
//!
//! Of a weight, one axis is contiguous, and its strides are positive. Other tensors are contiguous, except for the rows of
//! which columns are summed.

use crate::keys::OutputLayout;
use crate::product::{
    Gemm, Matrix, add_product, columns_times, has_tiles_for_f32, product_rounded, takes_rounded,
};
use crate::{
    Context, Element, Kernel, Output, Real, Rows, SliceMut, Unwritten, Values, View, run, total,
    with_type,
};
use std::ops::Range;

/// Returns whether products are computed in tiles of AMX on this machine: those of matrices in bf16, and those of large ones in
/// f32, in which each number is the sum of three in bf16.
pub fn multiplies_in_tiles() -> bool {
    has_tiles_for_f32()
}

/// Returns whether products of bf16 are of pairs of numbers, none of which is converted, on this machine.
pub fn multiplies_pairs_of_bf16() -> bool {
    takes_rounded::<half::bf16>()
}

/// Returns `x · weight + bias`, rounded once: `[.., outputs]` of `x`, `[.., inputs]`.
///
/// # Panics
/// Panics if sizes or types don't go together, or if a tensor can't be read in place.
pub fn forward(
    x: &View<'_>,
    weight: &View<'_>,
    layout: OutputLayout,
    bias: Option<&View<'_>>,
) -> Values {
    with_type!(x.dtype(), T => {
        let bias = bias.map(loaded::<T>);
        rows_times::<T>(x, matrix(weight, layout), bias.as_deref())
    })
}

/// Returns the gradient of `x`, `dy · weightᵀ`: `[.., inputs]` of `dy`, `[.., outputs]`.
///
/// # Panics
/// Panics under the conditions of [`forward`].
pub fn gradient_of_x(dy: &View<'_>, weight: &View<'_>, layout: OutputLayout) -> Values {
    with_type!(dy.dtype(), T => rows_times::<T>(dy, matrix(weight, layout).transposed(), None))
}

/// Adds the gradient of `x` to other numbers, if products are summed in this type. Returns `false` if they are not, or not
/// for products of these sizes, and then nothing is added.
///
/// # Panics
/// Panics under the conditions of [`forward`].
pub fn add_gradient_of_x(
    dy: &View<'_>,
    weight: &View<'_>,
    layout: OutputLayout,
    to: SliceMut<'_>,
) -> bool {
    with_type!(dy.dtype(), T => {
        let weight = matrix::<T>(weight, layout).transposed();
        let ((dy, width, count), to) = (columns::<T>(dy), to.into_slice());
        assert!(
            width == weight.inputs && Some(to.len()) == count.checked_mul(weight.features),
            "{count} rows of {width} elements and a weight of {} by {} have no product of {} elements",
            weight.inputs,
            weight.features,
            to.len()
        );
        add_product(dy, weight, to)
    })
}

/// Returns the gradient of the weight, in its layout: `xᵀ · dy`, or its transpose.
///
/// # Panics
/// Panics under the conditions of [`forward`].
pub fn gradient_of_weight(x: &View<'_>, dy: &View<'_>, layout: OutputLayout) -> Values {
    with_type!(x.dtype(), T => {
        let (x, dy) = (columns::<T>(x), columns::<T>(dy));
        let (left, right) = match layout {
            OutputLayout::InputMajor => (x, dy),
            OutputLayout::OutputMajor => (dy, x),
        };
        assert!(
            left.2 == right.2,
            "{} rows have no gradient of {} rows",
            left.2,
            right.2
        );
        let mut result = Output::<T>::new([left.1, right.1]);
        columns_times(left.2, (left.0, left.1), (right.0, right.1), result.rest());
        T::values(result.into_values())
    })
}

/// Returns the sum of the rows of `dy`, whose elements are contiguous: the gradient of a bias.
///
/// # Panics
/// Panics if the elements of a row are not contiguous.
pub fn gradient_of_bias(dy: &View<'_>) -> Values {
    with_type!(dy.dtype(), T => {
        let rows = Rows::<T>::of(dy);
        let (count, width) = (rows.count(), rows.width());
        let nothing: [&mut Output<T>; 0] = [];
        let sums = run(
            &ColumnSums { rows },
            count,
            width,
            nothing,
            &mut Output::none(),
        );
        T::values(total::<T>(sums.iter().map(Vec::as_slice), width))
    })
}

/// Returns `rows · weights + bias`, rounded once.
fn rows_times<T: Element>(
    rows: &View<'_>,
    weights: Matrix<'_, T>,
    bias: Option<&[T::Acc]>,
) -> Values
where
    T::Acc: Gemm,
{
    let (rows, width, count) = columns::<T>(rows);
    assert!(
        width == weights.inputs && bias.is_none_or(|bias| bias.len() == weights.features),
        "rows of {width} elements have no product with {} inputs of {} outputs",
        weights.inputs,
        weights.features
    );
    let mut result = Output::<T>::new([count, weights.features]);
    product_rounded(rows, weights, bias, result.rest());
    T::values(result.into_values())
}

/// Returns a weight as the matrix `inputs × outputs`.
fn matrix<'a, T: Element>(weight: &View<'a>, layout: OutputLayout) -> Matrix<'a, T> {
    let matrix = Matrix::of(weight);
    match layout {
        OutputLayout::InputMajor => matrix,
        OutputLayout::OutputMajor => matrix.transposed(),
    }
}

/// Returns the elements of contiguous rows with the numbers of elements of a row and of rows.
///
/// # Panics
/// Panics if the tensor has no axis, or more rows than a number has room for.
fn columns<'a, T: Element>(tensor: &View<'a>) -> (&'a [T], usize, usize) {
    let Some((width, lead)) = tensor.sizes().split_last() else {
        panic!("rows need an axis");
    };
    let data = tensor.contiguous::<T>();
    let count = match data.len().checked_div(*width) {
        Some(count) if count > 0 => count,
        // Empty tensors may have axes whose product is beyond all memory.
        _ => lead
            .iter()
            .fold(1, |rows: usize, size| rows.saturating_mul(*size)),
    };
    (data, *width, count)
}

/// Returns the elements of a bias in the type that is computed in.
fn loaded<T: Element>(bias: &View<'_>) -> Vec<T::Acc> {
    bias.contiguous::<T>()
        .iter()
        .map(|value| value.load())
        .collect()
}

/// The sums of the columns of a range of rows.
struct ColumnSums<'a, T> {
    rows: Rows<'a, T>,
}

impl<T: Element> Kernel<0> for ColumnSums<'_, T> {
    type Out = T;
    type Acc = T::Acc;
    type PerRow = ();
    type Sum = Vec<T::Acc>;

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        _: C,
        range: Range<usize>,
        _: [Unwritten<'_, T>; 0],
        _: Unwritten<'_, ()>,
    ) -> Vec<T::Acc> {
        let mut sums = vec![T::Acc::ZERO; self.rows.width()];
        for row in self.rows.range(range) {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += value.load();
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn without_inputs_the_result_is_the_bias() {
        for (rows, outputs) in [(1, 3), (3, 200), (200, 200)] {
            let bias: Vec<f32> = (0..outputs).map(|i| i as f32).collect();
            let x = View::of::<f32>(&[], &[rows, 0], &[40, 1], 0);
            let weight = View::of::<f32>(&[], &[outputs, 0], &[40, 1], 0);
            let y = |bias: Option<&View<'_>>| forward(&x, &weight, OutputLayout::OutputMajor, bias);
            let expected = bias.repeat(rows);
            assert_eq!(
                y(Some(&View::whole(&bias, &[outputs]))),
                Values::F32(expected)
            );
            assert_eq!(y(None), Values::F32(vec![0.0; rows * outputs]));
        }
    }

    #[test]
    fn a_gradient_that_does_not_fit_is_added_to_nothing() {
        let (data, weight) = (vec![1.0_f32; 4096], vec![1.0_f32; 15]);
        let weight = View::whole(&weight, &[5, 3]);
        for (rows, width, elements) in [(600, 4, 3000), (800, 3, 3000), (8, 3, 41)] {
            let dy = View::whole(&data[..rows * width], &[rows, width]);
            let mut sum = vec![0.0_f32; elements];
            let add = || {
                add_gradient_of_x(
                    &dy,
                    &weight,
                    OutputLayout::InputMajor,
                    SliceMut::of(&mut sum),
                )
            };
            assert!(
                catch_unwind(AssertUnwindSafe(add)).is_err(),
                "{rows} {width}"
            );
            assert!(sum.iter().all(|x| *x == 0.0));
        }
    }
}
