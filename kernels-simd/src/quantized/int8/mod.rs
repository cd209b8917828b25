//! Products of integers: rows of `x` are rounded to 8 bits in blocks, and multiplied with the weight's codes.
//!
//! An element of a weight is `scale · code + term`, and one of a block of 32 of `x` is rounded to `scale · number`,
//! with a number from −127 to 127 and 1/127 of the block's largest size as scale. So the part of a block in a sum is
//! `scale · (scale · Σ code · number + term · Σ number)`. Its sums of integers are exact. Rounding `x` costs some
//! tenths of a percent of a result: each element is off by at most half of its block's scale.

mod activations;
mod blocks;
mod few;
mod many;
mod quads;
mod weights;

use super::panels::ROWS;
use crate::product::{finish, in_columns, load, with_memory};
use crate::{Context, DType, Element, Output, Unwritten, Values, View};
use activations::Activations;
use half::{bf16, f16};
use kernels_quant::QuantizedWeight;
use quads::{Quads, Work};
use weights::Integers;

/// The number of outputs that a thread computes at a time.
const OUTPUTS: usize = 64;

/// The number of elements of a weight from which it pays to wake other threads.
const PARALLEL: usize = 1 << 17;

/// The number of rows from which it pays to reorder codes.
const MANY: usize = 8;

/// The number of rows that are multiplied with sixteen outputs together.
const TALL: usize = 4;

/// Returns `true` if [`forward`] takes a weight: its elements are integers with scales, stored row by row. These are
/// the blocks of GGUF files, and the integers of LLM.int8 and of compressed-tensors in 4 and 8 bits.
pub fn takes(weight: &QuantizedWeight<'_>) -> bool {
    Integers::of(weight).is_some()
}

/// Returns `x · weightᵀ`, of rounded elements of `x`, rounded once more to its type: `[.., outputs]` of `x`, `[..,
/// inputs]`. If a number of a row of `x` is infinite or NaN, all results of the row are NaN. Results don't depend on
/// the number of threads.
///
/// # Panics
/// Panics if the sizes don't go together, if `x` is not contiguous or is in f64, or if [`takes`] does
/// not accept the weight.
pub fn forward(x: &View<'_>, weight: &QuantizedWeight<'_>) -> Values {
    match x.dtype() {
        DType::F32 => forward_in::<f32>(x, weight),
        DType::Bf16 => forward_in::<bf16>(x, weight),
        DType::F16 => forward_in::<f16>(x, weight),
        DType::F64 => panic!("products of 8-bit integers are in f32, and x is in f64"),
    }
}

/// Returns rows of `width` elements as [`forward`] rounds them.
///
/// # Panics
/// Panics if `width` is zero or does not divide the number of elements.
pub fn rounded(rows: &[f32], width: usize) -> Vec<f32> {
    assert!(
        width > 0 && rows.len().is_multiple_of(width),
        "{} elements cannot be divided into rows of {width}",
        rows.len()
    );
    let mut rounded = Vec::with_capacity(rows.len());
    for row in Activations::new(rows, width).rows() {
        let start = rounded.len();
        for piece in row {
            let groups = piece.codes.as_chunks::<{ weights::GROUP }>().0.iter();
            for (codes, scale) in groups.zip(piece.scales) {
                rounded.extend(codes.iter().map(|code| f32::from(*code) * scale));
            }
        }
        rounded.truncate(start + width);
    }
    rounded
}

fn forward_in<T: Element<Acc = f32>>(x: &View<'_>, weight: &QuantizedWeight<'_>) -> Values {
    let [outputs, inputs] = weight.shape();
    let Some(integers) = Integers::of(weight) else {
        panic!(
            "a weight of {} is not multiplied with 8-bit integers",
            weight.encoding()
        );
    };
    let (rows, count) = super::rows::<T>(x, inputs, weight);
    let mut result = Output::<T>::new([count, outputs]);
    product(rows, integers, [outputs, inputs], result.rest());
    T::values(result.into_values())
}

fn product<T: Element<Acc = f32>>(
    rows: &[T],
    weight: Integers<'_>,
    [outputs, inputs]: [usize; 2],
    mut out: Unwritten<'_, T>,
) {
    for rows in rows.chunks(ROWS * inputs) {
        let count = rows.len() / inputs;
        some_rows(&load(rows), weight, outputs, out.part(count * outputs));
    }
}

fn some_rows<T: Element<Acc = f32>>(
    rows: &[f32],
    weight: Integers<'_>,
    outputs: usize,
    out: Unwritten<'_, T>,
) {
    let count = out.len() / outputs;
    let inputs = rows.len() / count;
    let rows = Activations::new(rows, inputs);
    let parallel = count.saturating_mul(outputs * inputs) >= PARALLEL;
    in_columns(out, outputs, OUTPUTS, parallel, |mut part| {
        let (first, width) = (part.start(), part.width());
        with_memory(count * width, |sums: &mut [f32]| {
            quads::run(Part {
                rows: &rows,
                weight,
                first,
                width,
                sums: &mut *sums,
            });
            finish(sums, None, &mut part);
        });
    });
}

/// The registers of a machine.
type Of<Q> = <<Q as Quads>::Lanes as Context>::Of<f32>;

/// The products of all rows with some rows of a weight.
struct Part<'a> {
    rows: &'a Activations,
    weight: Integers<'a>,
    /// The first row of the weight, and the number of them.
    first: usize,
    width: usize,
    /// The results, `rows × width`.
    sums: &'a mut [f32],
}

impl Work for Part<'_> {
    #[inline(always)]
    fn run<Q: Quads>(self, q: Q) {
        match self.rows.rows().len() {
            ..MANY => self.few(q),
            _ => self.many(q),
        }
    }
}
