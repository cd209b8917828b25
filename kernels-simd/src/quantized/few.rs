//! Products of few rows, as in decoding. The weight is read once. Its numbers stay in registers if there is one row,
//! and otherwise in the first-level cache.

use super::decode::{ColumnCodes, DecodeRows, INPUTS, PIECE, RowCodes, SUMS, Sink, TOGETHER, Tile};
use crate::lanes::{Task, dispatch};
use crate::product::{Gemm, finish, in_columns, load, with_memory};
use crate::{Context, Element, LANES, Lanes, Number, Unwritten};
use kernels_quant::QuantizedWeight;

/// The number of rows from which a product of decoded panels is faster.
const ROWS: usize = 8;

/// The number of outputs that a thread computes at a time.
const OUTPUTS: usize = 64;

/// The number of parts of a product with words of columns, if they are not too narrow or wide.
const PARTS: usize = 16;

/// The number of elements of a weight from which it pays to wake other threads.
const PARALLEL: usize = 1 << 17;

/// The weight of a product of few rows.
pub(super) struct Weight<'a> {
    codes: Codes<'a>,
    shape: [usize; 2],
    count: usize,
}

#[derive(Clone, Copy)]
enum Codes<'a> {
    Rows(RowCodes<'a>),
    Columns(ColumnCodes<'a>),
}

impl<'a> Weight<'a> {
    /// Returns the weight, or `None` if there are many rows or the product is not in f32.
    pub(super) fn of<T: Element>(count: usize, weight: &'a QuantizedWeight<'_>) -> Option<Self>
    where
        T::Acc: Gemm,
    {
        let fits = (1..ROWS).contains(&count) && T::Acc::as_f32(&[]).is_some();
        let rows = || RowCodes::of(weight).map(Codes::Rows);
        let columns = || ColumnCodes::of(weight).map(Codes::Columns);
        let codes = fits.then(|| rows().or_else(columns)).flatten()?;
        Some(Self {
            codes,
            shape: weight.shape(),
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
        shape: [outputs, inputs],
        count,
    } = weight;
    let parallel = outputs * inputs >= PARALLEL;
    let width = match codes {
        Codes::Rows(_) => OUTPUTS,
        // The more words of a line are read, the less is the time between lines.
        Codes::Columns(_) => (outputs / PARTS)
            .next_multiple_of(OUTPUTS)
            .clamp(OUTPUTS, TOGETHER),
    };
    in_columns(out, outputs, width, parallel, |mut part| {
        let width = part.width();
        with_memory(count * width, |sums: &mut [T::Acc]| {
            let to = Sums {
                rows,
                first: part.start(),
                width,
                sums: T::Acc::as_f32_mut(sums).expect("asked before"),
            };
            match codes {
                Codes::Rows(codes) if count == 1 => dispatch(OfOneRow { codes, to }),
                Codes::Rows(codes) => to.of_rows(codes, inputs),
                Codes::Columns(codes) => dispatch(OfColumns { codes, to }),
            }
            finish(sums, None, &mut part);
        });
    });
}

/// The products of all rows with some rows of a weight.
struct Sums<'a> {
    rows: &'a [f32],
    /// The first row of the weight, and the number of them.
    first: usize,
    width: usize,
    /// The results, `count × width`.
    sums: &'a mut [f32],
}

impl Sums<'_> {
    /// Decodes each row of the weight to the first-level cache.
    fn of_rows(mut self, codes: RowCodes<'_>, inputs: usize) {
        with_memory(inputs, |decoded: &mut [f32]| {
            for output in 0..self.width {
                let first = self.first + output;
                dispatch(DecodeRows {
                    codes,
                    first,
                    out: &mut *decoded,
                });
                dispatch(OfDecoded {
                    decoded: &*decoded,
                    output,
                    to: &mut self,
                });
            }
        });
    }
}

/// Products of one row, whose weights never leave the registers.
struct OfOneRow<'a> {
    codes: RowCodes<'a>,
    to: Sums<'a>,
}

impl Task for OfOneRow<'_> {
    type Acc = f32;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let Self { codes, to } = self;
        let columns = codes.columns();
        for (output, sum) in to.sums.iter_mut().enumerate() {
            let mut dot = Dot::<C> {
                row: to.rows,
                lanes: [C::Of::<f32>::splat(c, 0.0); SUMS],
                rest: 0.0,
                c,
            };
            for from in (0..columns).step_by(PIECE) {
                dot.row = &to.rows[from..];
                let part = (from, PIECE.min(columns - from));
                codes.piece(c, to.first + output, part, &mut dot);
            }
            *sum = total::<C>(dot.lanes) + dot.rest;
        }
    }
}

struct Dot<'a, C: Context> {
    /// The row from the piece on.
    row: &'a [f32],
    lanes: [C::Of<f32>; SUMS],
    /// The sum of the products that don't fill a vector.
    rest: f32,
    c: C,
}

impl<C: Context> Sink<C> for Dot<'_, C> {
    #[inline(always)]
    fn take(&mut self, numbers: C::Of<f32>, at: usize, sum: usize) {
        let x: &[f32; LANES] = self.row[at..].first_chunk().expect("whole vectors");
        self.lanes[sum] = C::Of::<f32>::read(self.c, x).mul_add(numbers, self.lanes[sum]);
    }

    #[inline(always)]
    fn take_rest(&mut self, numbers: &[f32], at: usize) {
        let products = numbers.iter().zip(&self.row[at..]);
        self.rest += products.map(|(weight, x)| weight * x).sum::<f32>();
    }
}

#[inline(always)]
fn total<C: Context>([a, b, d, e]: [C::Of<f32>; SUMS]) -> f32 {
    ((a + b) + (d + e)).total()
}

/// Products of all rows with one row of a weight.
struct OfDecoded<'a, 't, 's> {
    decoded: &'a [f32],
    output: usize,
    to: &'t mut Sums<'s>,
}

impl Task for OfDecoded<'_, '_, '_> {
    type Acc = f32;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let to = self.to;
        let rows = to.rows.chunks_exact(self.decoded.len());
        let sums = to.sums.iter_mut().skip(self.output).step_by(to.width);
        for (row, sum) in rows.zip(sums) {
            let mut lanes = [C::Of::<f32>::splat(c, 0.0); SUMS];
            let rest = dot(c, self.decoded, row, &mut lanes);
            *sum = total::<C>(lanes) + rest;
        }
    }
}

/// Products with sixteen rows of a weight at a time, a lane each.
struct OfColumns<'a> {
    codes: ColumnCodes<'a>,
    to: Sums<'a>,
}

impl Task for OfColumns<'_> {
    type Acc = f32;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let Self { codes, to } = self;
        let columns = codes.columns();
        let starts = (0..to.width).step_by(LANES);
        let of_groups: Vec<_> = starts.map(|at| codes.of_rows(to.first + at)).collect();
        let mut totals = [[[0.0; LANES]; TOGETHER / LANES]; ROWS];
        let mut square = [[0.0; LANES]; INPUTS];
        let mut tile = Tile::default();
        for from in (0..columns).step_by(INPUTS) {
            let part = from..columns.min(from + INPUTS);
            codes.copy(to.first..to.first + to.width, part.clone(), &mut tile);
            for (at, of_groups) in of_groups.iter().enumerate() {
                let first = to.first + at * LANES;
                codes.square(c, first, &tile, of_groups, &mut square);
                let rows = to.rows.chunks_exact(columns).zip(&mut totals);
                for (row, totals) in rows {
                    totals[at] = times::<C>(c, &row[part.clone()], &square, &totals[at]);
                }
            }
        }
        for (sums, totals) in to.sums.chunks_exact_mut(to.width).zip(&totals) {
            sums.copy_from_slice(&totals.as_flattened()[..to.width]);
        }
    }
}

/// Adds the products of a row with the columns of a square to sums.
#[inline(always)]
fn times<C: Context>(
    c: C,
    row: &[f32],
    square: &[[f32; LANES]; INPUTS],
    sums: &[f32; LANES],
) -> [f32; LANES] {
    let mut lanes = [C::Of::<f32>::splat(c, 0.0); SUMS];
    lanes[0] = C::Of::<f32>::read(c, sums);
    let (fours, rest) = row.as_chunks::<SUMS>();
    let (square_fours, square) = square[..row.len()].as_chunks::<SUMS>();
    for (x, weights) in fours.iter().zip(square_fours) {
        for i in 0..SUMS {
            let x = C::Of::<f32>::splat(c, x[i]);
            lanes[i] = C::Of::<f32>::read(c, &weights[i]).mul_add(x, lanes[i]);
        }
    }
    for (x, weights) in rest.iter().zip(square) {
        let x = C::Of::<f32>::splat(c, *x);
        lanes[0] = C::Of::<f32>::read(c, weights).mul_add(x, lanes[0]);
    }
    let [a, b, d, e] = lanes;
    ((a + b) + (d + e)).values()
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
