//! The kernels around the products of a chunk. Matrices are slices of vectors: rows one after the other, of `vectors` vectors
//! each. Those in f32 are results of products, and operands have elements of a type `E`.

use crate::gpu::elements::wide;
use crate::gpu::parts::{at_least, largest_of_cube, shrinkage, sum_of_cube};
use crate::ops::cross_entropy::cube::kernels::{
    IGNORED, LEAST, Numbers, Terms, capped, element_at, largest_element, loss, slopes,
};
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// The gradients that a launch computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Factors {
    /// None.
    None,
    /// Those of a loss that has one gradient for all tokens.
    Shared,
    /// Those of losses with a gradient for each token.
    Each,
}

/// Writes the loss of one token of a chunk, given its logits without the bias. Writes their gradient in their place if there
/// are factors. Classes, factors and losses are those of all tokens, of which the chunk begins at `first`.
#[cube(launch_unchecked)]
pub(super) fn losses<E: Float, N: Size>(
    logits: &mut [Vector<f32, N>],
    bias: ComptimeOption<&[Vector<E, N>]>,
    classes: &[i32],
    factors: ComptimeOption<&[f32]>,
    losses: &mut [f32],
    numbers: &Numbers,
    first: usize,
    #[comptime] terms: Terms,
    #[comptime] of: Factors,
    #[comptime] units: usize,
    #[define(E)] _element: ElemType,
) {
    if CUBE_POS >= numbers.tokens {
        terminate!();
    }
    let token = first + CUBE_POS;
    let start = CUBE_POS * numbers.vectors;
    let class = classes[token];
    // Read before any unit writes gradients.
    let mut target = 0.0f32;
    if class >= 0 {
        let at = class as usize / N::value();
        let x = capped(shifted(logits[start + at], bias, at), numbers, terms);
        target = element_at(x, class as usize % N::value());
    }
    // The largest logit so far, the sum of the exponentials of the differences to it, and the sum of all logits.
    let mut largest = Vector::<f32, N>::new(LEAST);
    let mut sum = Vector::<f32, N>::new(0.0);
    let mut all = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while at < numbers.vectors {
        let x = capped(shifted(logits[start + at], bias, at), numbers, terms);
        let next = at_least(x, largest);
        sum = sum * shrinkage(largest, next) + (x - next).exp();
        largest = next;
        if comptime!(terms.is_smooth) {
            all += x;
        }
        at += units;
    }
    let top = largest_of_cube(largest_element(largest), units);
    let sum = sum * (largest - Vector::new(top)).exp();
    let log_sum = sum_of_cube(sum.vector_sum(), units).ln();
    let mut spread = 0.0f32;
    if comptime!(terms.is_smooth) {
        let width = f32::cast_from(numbers.vectors * N::value());
        spread = (sum_of_cube(all.vector_sum(), units) / width - top) * numbers.smoothing;
    }
    if UNIT_POS == 0 {
        let of_token = loss(target, top, log_sum, spread, numbers, terms);
        let of_none = select(class == IGNORED, 0.0, numbers.nan);
        losses[token] = select(class >= 0, of_token, of_none);
    }
    if comptime!(of != Factors::None) {
        let factors: &[f32] = factors.unwrap();
        let factor = match comptime!(of) {
            Factors::Each => factors[token],
            Factors::Shared | Factors::None => factors[0],
        };
        let mut at = UNIT_POS as usize;
        while at < numbers.vectors {
            let x = capped(shifted(logits[start + at], bias, at), numbers, terms);
            let mut d = Vector::<f32, N>::new(0.0);
            if class >= 0 {
                let place = at * N::value();
                d = slopes(x, log_sum + top, place, class as usize, numbers, terms)
                    * Vector::new(factor);
            } else if class != IGNORED {
                d = Vector::new(numbers.nan);
            }
            logits[start + at] = d;
            at += units;
        }
    }
}

/// Adds the bias, if there is one.
#[cube]
fn shifted<E: Float, N: Size>(
    logits: Vector<f32, N>,
    bias: ComptimeOption<&[Vector<E, N>]>,
    at: usize,
) -> Vector<f32, N> {
    let bias: ComptimeOption<Vector<f32, N>> = bias.map(|bias| wide(bias[at]));
    logits + bias.unwrap_or_else(|| Vector::new(0.0))
}

/// Copies rows as numbers, with zeros for those of ignored tokens: a product makes no zero of infinity and NaN. A unit copies one
/// vector. The classes are those of all tokens, of which the rows begin at `first`.
#[cube(launch_unchecked)]
pub(super) fn counted<E: Float, N: Size>(
    from: &[Vector<E, N>],
    classes: &[i32],
    to: &mut [Vector<f32, N>],
    first: usize,
    rows: usize,
    vectors: usize,
    #[define(E)] _element: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i >= rows * vectors {
        terminate!();
    }
    let token = first + i / vectors;
    let mut x = wide(from[first * vectors + i]);
    if classes[token] == IGNORED {
        x = Vector::new(0.0);
    }
    to[i] = x;
}

/// Adds one tensor to another: a unit for each vector.
#[cube(launch_unchecked)]
pub(super) fn add<N: Size>(sum: &mut [Vector<f32, N>], more: &[Vector<f32, N>], vectors: usize) {
    let i = ABSOLUTE_POS;
    if i >= vectors {
        terminate!();
    }
    sum[i] += more[i];
}

/// Writes the sums of one part of rows: a unit for each vector of a row, and cubes along y for the parts.
#[cube(launch_unchecked)]
pub(super) fn sum_parts<N: Size>(
    from: &[Vector<f32, N>],
    sums: &mut [Vector<f32, N>],
    rows: usize,
    rows_of_part: usize,
    vectors: usize,
) {
    let column = ABSOLUTE_POS_X as usize;
    if column >= vectors {
        terminate!();
    }
    let part = CUBE_POS_Y as usize;
    let start = part * rows_of_part;
    let end = min(start + rows_of_part, rows);
    let mut sum = Vector::<f32, N>::new(0.0);
    for row in start..end {
        sum += from[row * vectors + column];
    }
    sums[part * vectors + column] = sum;
}
