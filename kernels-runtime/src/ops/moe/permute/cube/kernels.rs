//! The kernels that move rows. Rows are slices of vectors, one after the other, of `vectors` vectors each.

use crate::gpu::elements::{narrow, wide};
use crate::gpu::parts::sum_of_cube;
use crate::ops::moe::cube::sort::kernels::MISTAKE;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// The numbers of a call.
#[derive(CubeType, CubeLaunch)]
pub(in crate::ops::moe) struct Numbers {
    /// The number of vectors of a row.
    vectors: usize,
    /// The number of vectors of the result.
    all: usize,
    /// The number of slots of a token.
    choices: usize,
    /// The number of rows.
    rows: usize,
    /// No number: the result of a token with a mistake.
    nan: f32,
}

/// Writes one vector of a row: that of its token, times the probability of its slot, or zeros if it has no slot.
#[cube(launch_unchecked)]
pub(in crate::ops::moe) fn spread<E: Float, P: Float, N: Size>(
    tokens: &[Vector<E, N>],
    slots_of: &[i32],
    probs: ComptimeOption<&[P]>,
    rows: &mut [Vector<E, N>],
    numbers: &Numbers,
    #[define(E, P)] _elements: [ElemType; 2],
) {
    let i = ABSOLUTE_POS;
    if i >= numbers.all {
        terminate!();
    }
    let (row, at) = (i / numbers.vectors, i % numbers.vectors);
    let slot = slots_of[row];
    let mut value = Vector::<f32, N>::new(0.0);
    if slot >= 0 {
        let slot = slot as usize;
        value = wide(tokens[slot / numbers.choices * numbers.vectors + at]);
        if comptime!(probs.is_some()) {
            value *= Vector::new(f32::cast_from(probs.unwrap()[slot]));
        }
    }
    rows[i] = narrow(value);
}

/// Writes one vector of a token: the sum of those of its rows, times the probabilities of their slots, in the order of the
/// slots.
#[cube(launch_unchecked)]
pub(in crate::ops::moe) fn sum<R: Float, P: Float, E: Float, N: Size>(
    rows: &[Vector<R, N>],
    row_map: &[i32],
    probs: ComptimeOption<&[P]>,
    y: &mut [Vector<E, N>],
    numbers: &Numbers,
    #[define(R, P, E)] _elements: [ElemType; 3],
) {
    let i = ABSOLUTE_POS;
    if i >= numbers.all {
        terminate!();
    }
    let (token, at) = (i / numbers.vectors, i % numbers.vectors);
    let mut sum = Vector::<f32, N>::new(0.0);
    for choice in 0..numbers.choices {
        let slot = token * numbers.choices + choice;
        let row = row_map[slot];
        if row >= 0 && row < numbers.rows as i32 {
            let mut term = wide(rows[row as usize * numbers.vectors + at]);
            if comptime!(probs.is_some()) {
                term *= Vector::new(f32::cast_from(probs.unwrap()[slot]));
            }
            sum += term;
        } else if row == MISTAKE {
            sum = Vector::new(numbers.nan);
        }
    }
    y[i] = narrow(sum);
}

/// Writes the product of one slot's row and its token's gradient, and zero for a slot without a row: a cube for each slot.
#[cube(launch_unchecked)]
pub(super) fn product<E: Float, P: Float, N: Size>(
    dy: &[Vector<E, N>],
    rows: &[Vector<E, N>],
    row_map: &[i32],
    products: &mut [P],
    slots: usize,
    numbers: &Numbers,
    #[comptime] units: usize,
    #[define(E, P)] _elements: [ElemType; 2],
) {
    let slot = CUBE_POS;
    if slot >= slots {
        terminate!();
    }
    let row = row_map[slot];
    let has_row = row >= 0 && row < numbers.rows as i32;
    let mut sum = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while has_row && at < numbers.vectors {
        let of_token = wide(dy[slot / numbers.choices * numbers.vectors + at]);
        sum += wide(rows[row as usize * numbers.vectors + at]) * of_token;
        at += units;
    }
    let product = sum_of_cube(sum.vector_sum(), units);
    if UNIT_POS == 0 {
        products[slot] = P::cast_from(select(row == MISTAKE, numbers.nan, product));
    }
}
