//! Products of rows with panels of a weight: some rows of it, decoded to the type that products are computed in.

use super::decode::{ColumnCodes, DecodeColumns, DecodeRows, RowCodes};
use crate::lanes::dispatch;
use crate::product::{self, Gemm, Matrix, Rows, finish, in_columns, load, with_memory};
use crate::{Element, Real, Unwritten, share};
use kernels_quant::QuantizedWeight;
use std::ops::Range;

/// The number of elements of the panel of a thread: a megabyte of f32, which the second-level cache holds.
const PANEL: usize = 1 << 18;

/// The largest number of outputs of it, and a number that divides those of all but the last.
const OUTPUTS: usize = 64;
pub(super) const VECTOR: usize = 16;

/// The number of rows from which products copy both operands, and the numbers of outputs for which that pays: the
/// panel is then read once, and need not stay in a cache.
const MANY: usize = 192;
const MANY_OUTPUTS: [usize; 2] = [128, 256];

/// The number of elements of the panel that threads share in a gradient.
const SHARED: usize = 1 << 20;

/// The largest number of outputs of it.
const SHARED_OUTPUTS: usize = 256;

/// The number of rows of `x` or `dy` for which a weight is decoded once. Copies of them, and their sums, are that large.
pub(super) const ROWS: usize = 1 << 12;

/// The number of multiplications from which it pays to wake other threads.
const PARALLEL: usize = 1 << 20;

/// The number of elements that a thread decodes at a time, if threads share a panel.
pub(super) const DECODED: usize = 1 << 15;

/// Computes `rows · weightᵀ`, rounded once.
pub(super) fn product<T: Element>(
    rows: &[T],
    weight: &QuantizedWeight<'_>,
    mut out: Unwritten<'_, T>,
) where
    T::Acc: Gemm,
{
    let [outputs, inputs] = weight.shape();
    for rows in rows.chunks(ROWS * inputs) {
        let count = rows.len() / inputs;
        some_rows(rows, weight, out.part(count * outputs));
    }
}

fn some_rows<T: Element>(rows: &[T], weight: &QuantizedWeight<'_>, out: Unwritten<'_, T>)
where
    T::Acc: Gemm,
{
    let [outputs, inputs] = weight.shape();
    let count = rows.len() / inputs;
    let rows = load(rows);
    let rows = Rows::new(&rows, count, inputs);
    let [least, most] = match count {
        MANY.. => MANY_OUTPUTS,
        _ => [VECTOR, OUTPUTS],
    };
    let width = (PANEL / inputs / VECTOR * VECTOR).clamp(least, most);
    let parallel = count.saturating_mul(inputs * outputs) >= PARALLEL;
    in_columns(out, outputs, width, parallel, |mut part| {
        let (first, width) = (part.start(), part.width());
        with_memory(width * inputs, |panel: &mut [T::Acc]| {
            decode_here(weight, first, panel);
            let weights = Matrix {
                data: &*panel,
                inputs,
                features: width,
                input_stride: 1,
                feature_stride: inputs,
            };
            with_memory(count * width, |sums: &mut [T::Acc]| {
                product::product(&rows, weights, sums, false, false);
                finish(sums, None, &mut part);
            });
        });
    });
}

/// Computes `dy · weight`, rounded once.
pub(super) fn gradient<T: Element>(
    dy: &[T],
    weight: &QuantizedWeight<'_>,
    mut out: Unwritten<'_, T>,
) where
    T::Acc: Gemm,
{
    let [outputs, inputs] = weight.shape();
    for dy in dy.chunks(ROWS * outputs) {
        let count = dy.len() / outputs;
        let mut sums = vec![<T::Acc as Gemm>::ZERO; count * inputs];
        add_gradient(dy, weight, &mut sums);
        let rounded = sums.iter().map(|sum| T::round(*sum));
        out.row(sums.len()).write(rounded);
    }
}

/// Adds `dy · weight` to sums. All threads multiply with one panel, which some rows of the weight are.
fn add_gradient<T: Element>(dy: &[T], weight: &QuantizedWeight<'_>, sums: &mut [T::Acc])
where
    T::Acc: Gemm,
{
    let [outputs, inputs] = weight.shape();
    let count = dy.len() / outputs;
    let height = (SHARED / inputs / VECTOR * VECTOR).clamp(VECTOR, SHARED_OUTPUTS);
    let mut columns = Vec::with_capacity(count * height.min(outputs));
    for first in (0..outputs).step_by(height) {
        let height = height.min(outputs - first);
        columns.clear();
        for row in dy.chunks_exact(outputs) {
            columns.extend(row[first..][..height].iter().map(|value| value.load()));
        }
        let spread = count.saturating_mul(height * inputs) >= PARALLEL;
        with_memory(height * inputs, |panel: &mut [T::Acc]| {
            decode(weight, first..first + height, panel);
            let weights = Matrix {
                data: &*panel,
                inputs: height,
                features: inputs,
                input_stride: inputs,
                feature_stride: 1,
            };
            let columns = Rows::new(&columns, count, height);
            product::product(&columns, weights, sums, true, spread);
        });
    }
}

/// Decodes rows on several threads, if they are many.
pub(super) fn decode<A: Gemm>(weight: &QuantizedWeight<'_>, rows: Range<usize>, out: &mut [A]) {
    let [height, columns] = weight.shape();
    assert!(
        rows.start <= rows.end && rows.end <= height && out.len() == rows.len() * columns,
        "rows {rows:?} of a weight of {height} rows of {columns} have no place in {} elements",
        out.len()
    );
    let mut at_a_time = (DECODED / columns).max(1).next_multiple_of(VECTOR);
    if ColumnCodes::of(weight).is_some() {
        at_a_time = at_a_time.max(OUTPUTS);
    }
    let parts = out.chunks_mut(at_a_time * columns).enumerate();
    let parts: Vec<_> = parts
        .map(|(at, part)| (rows.start + at * at_a_time, part))
        .collect();
    let work = |(first, part): (usize, &mut [A])| decode_here(weight, first, part);
    match parts.len() {
        0 | 1 => parts.into_iter().for_each(work),
        _ => share::each(parts, work),
    }
}

/// Decodes as many rows as `out` has room for, on this thread.
pub(crate) fn decode_here<A: Gemm>(weight: &QuantizedWeight<'_>, first: usize, out: &mut [A]) {
    let [_, columns] = weight.shape();
    let last = first + out.len() / columns;
    let Some(out) = A::as_f32_mut(out) else {
        // Rows of GPTQ and AWQ are decoded in squares.
        let mut decoded = vec![0.0_f32; VECTOR.min(last - first) * columns];
        let parts = out.chunks_mut(VECTOR * columns);
        for (row, out) in (first..last).step_by(VECTOR).zip(parts) {
            let decoded = &mut decoded[..out.len()];
            decode_here(weight, row, decoded);
            for (place, number) in out.iter_mut().zip(&*decoded) {
                *place = <A as Real>::of(f64::from(*number));
            }
        }
        return;
    };
    if let Some(codes) = RowCodes::of(weight) {
        dispatch(DecodeRows { codes, first, out });
    } else if let Some(codes) = ColumnCodes::of(weight) {
        dispatch(DecodeColumns { codes, first, out });
    } else {
        weight.decode_rows(first..last, out);
    }
}
