//! Products with quantised weights, which stay as their bytes.
//!
//! A weight is `[outputs, inputs]`. Rows of it are decoded to f32, a few at a time, in memory that a thread keeps and
//! that the second-level cache holds, and multiplied by the products of this crate. One row of `x`, as in decoding, is
//! multiplied with numbers that never leave the registers, and a few rows with those of a row of the weight in the
//! first-level cache. Most encodings are decoded with SIMD, to the same bits as [`kernels_quant`] decodes, which
//! decodes the others: widths of integers other than 4 and 8 bits and columns out of order in compressed-tensors, and
//! blocks or groups that don't begin where vectors do.
//!
//! Sums are in f32, for half types too, and results are rounded once. They don't depend on the number of threads.

mod decode;
mod few;
pub mod int8;
mod panels;
mod table;

pub(crate) use panels::decode_here;
pub use table::rows_of;

use crate::product::Gemm;
use crate::{Element, Output, Values, View, with_type};
use kernels_quant::QuantizedWeight;
use std::ops::Range;

/// Returns `x · weightᵀ`, rounded once: `[.., outputs]` of `x`, `[.., inputs]`.
///
/// # Panics
/// Panics if the sizes don't go together, or if `x` is not contiguous.
pub fn forward(x: &View<'_>, weight: &QuantizedWeight<'_>) -> Values {
    with_type!(x.dtype(), T => forward_in::<T>(x, weight))
}

fn forward_in<T: Element>(x: &View<'_>, weight: &QuantizedWeight<'_>) -> Values
where
    T::Acc: Gemm,
{
    let [outputs, inputs] = weight.shape();
    let (rows, count) = rows::<T>(x, inputs, weight);
    let mut result = Output::<T>::new([count, outputs]);
    let out = result.rest();
    match few::Weight::of::<T>(count, weight) {
        Some(few) => few::product(rows, few, out),
        None => panels::product(rows, weight, out),
    }
    T::values(result.into_values())
}

/// Returns the gradient of `x`, `dy · weight`: `[.., inputs]` of `dy`, `[.., outputs]`. A weight of 8 or 4 bits has no gradient.
///
/// # Panics
/// Panics if the sizes don't go together, or if `dy` is not contiguous.
pub fn gradient_of_x(dy: &View<'_>, weight: &QuantizedWeight<'_>) -> Values {
    with_type!(dy.dtype(), T => {
        let [outputs, inputs] = weight.shape();
        let (dy, count) = rows::<T>(dy, outputs, weight);
        let mut result = Output::<T>::new([count, inputs]);
        panels::gradient(dy, weight, result.rest());
        T::values(result.into_values())
    })
}

/// Decodes rows of a weight, in parallel if they are many, to the bits of [`QuantizedWeight::decode_rows`].
///
/// # Panics
/// Panics if the weight has fewer rows, or if `out` has another number of elements than the rows.
pub fn decode_rows(weight: &QuantizedWeight<'_>, rows: Range<usize>, out: &mut [f32]) {
    panels::decode(weight, rows, out);
}

/// Returns the elements of rows of `width` elements, and the number of rows.
///
/// # Panics
/// Panics if the rows have another width.
fn rows<'a, T: Element>(
    rows: &View<'a>,
    width: usize,
    weight: &QuantizedWeight<'_>,
) -> (&'a [T], usize) {
    let sizes = rows.sizes();
    assert!(
        sizes.last() == Some(&width),
        "rows of sizes {sizes:?} have no product with a weight of {:?} outputs and inputs",
        weight.shape()
    );
    let data = rows.contiguous::<T>();
    // A weight has at least one row and one column.
    (data, data.len() / width)
}
