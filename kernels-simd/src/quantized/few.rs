//! Products of few rows, as in decoding. Each piece of a weight is decoded and multiplied with all rows, so that the weight is
//! read once, in order, and its numbers stay in the first-level cache.

use super::decode::{PIECE, RowCodes};
use crate::lanes::{Task, dispatch};
use crate::product::{Gemm, finish, in_columns, load, with_memory};
use crate::{Context, Element, LANES, Lanes, Number, Unwritten};
use kernels_quant::QuantizedWeight;

/// The number of rows from which a product of decoded panels is faster.
const ROWS: usize = 8;

/// The number of outputs that a thread computes at a time.
const OUTPUTS: usize = 64;

/// The number of elements of a weight from which it pays to wake other threads.
const PARALLEL: usize = 1 << 17;

/// The number of independent sums of a row, which hide the time that an addition takes.
const SUMS: usize = 4;

/// The weight of a product of few rows.
pub(super) struct Weight<'a> {
    codes: RowCodes<'a>,
    outputs: usize,
    count: usize,
}

impl<'a> Weight<'a> {
    /// Returns the weight, or `None` if there are many rows or the product is not in f32.
    pub(super) fn of<T: Element>(count: usize, weight: &'a QuantizedWeight<'_>) -> Option<Self>
    where
        T::Acc: Gemm,
    {
        let fits = (1..ROWS).contains(&count) && T::Acc::as_f32(&[]).is_some();
        let codes = RowCodes::of(weight).filter(|_| fits)?;
        let [outputs, _] = weight.shape();
        Some(Self {
            codes,
            outputs,
            count,
        })
    }
}

/// Computes `rows · weightᵀ`, rounded once.
pub(super) fn product<T: Element>(rows: &[T], weight: Weight<'_>, out: Unwritten<'_, T>)
where
    T::Acc: Gemm,
{
    let rows = load(rows);
    let rows = T::Acc::as_f32(&rows).expect("asked before");
    let Weight {
        codes,
        outputs,
        count,
    } = weight;
    let parallel = outputs * codes.columns() >= PARALLEL;
    in_columns(out, outputs, OUTPUTS, parallel, |mut part| {
        with_memory(count * part.width(), |sums: &mut [T::Acc]| {
            dispatch(Dots {
                rows,
                count,
                codes,
                first: part.start(),
                width: part.width(),
                sums: T::Acc::as_f32_mut(sums).expect("asked before"),
            });
            finish(sums, None, &mut part);
        });
    });
}

/// Products of all rows with some rows of a weight.
struct Dots<'a> {
    rows: &'a [f32],
    count: usize,
    codes: RowCodes<'a>,
    /// The first row of the weight, and the number of them.
    first: usize,
    width: usize,
    /// The results, `count × width`.
    sums: &'a mut [f32],
}

impl Task for Dots<'_> {
    type Acc = f32;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let columns = self.codes.columns();
        let zero = C::Of::<f32>::splat(c, 0.0);
        let mut decoded = [0.0; PIECE];
        for output in 0..self.width {
            let mut lanes = [[zero; SUMS]; ROWS];
            let mut rest = [0.0; ROWS];
            for from in (0..columns).step_by(PIECE) {
                let decoded = &mut decoded[..PIECE.min(columns - from)];
                self.codes.piece(c, self.first + output, from, decoded);
                let rows = self.rows.chunks_exact(columns).take(self.count);
                for ((row, lanes), rest) in rows.zip(&mut lanes).zip(&mut rest) {
                    *rest += dot(c, decoded, &row[from..][..decoded.len()], lanes);
                }
            }
            for (row, (lanes, rest)) in lanes.iter().zip(rest).take(self.count).enumerate() {
                let [a, b, d, e] = *lanes;
                self.sums[row * self.width + output] = ((a + b) + (d + e)).total() + rest;
            }
        }
    }
}

/// Adds products to the sums of lanes, and returns the sum of those that don't fill a vector.
#[inline(always)]
fn dot<C: Context>(c: C, weights: &[f32], row: &[f32], lanes: &mut [C::Of<f32>; SUMS]) -> f32 {
    let (weights, last_weights) = weights.as_chunks::<LANES>();
    let (row, last) = row.as_chunks::<LANES>();
    let (fours, weights) = weights.as_chunks::<SUMS>();
    let (row_fours, row) = row.as_chunks::<SUMS>();
    for (weights, row) in fours.iter().zip(row_fours) {
        for i in 0..SUMS {
            let weight = C::Of::<f32>::read(c, &weights[i]);
            lanes[i] = C::Of::<f32>::read(c, &row[i]).mul_add(weight, lanes[i]);
        }
    }
    for ((weights, row), lanes) in weights.iter().zip(row).zip(lanes) {
        let weight = C::Of::<f32>::read(c, weights);
        *lanes = C::Of::<f32>::read(c, row).mul_add(weight, *lanes);
    }
    let rest = last_weights.iter().zip(last);
    rest.map(|(weight, x)| weight * x).sum()
}
