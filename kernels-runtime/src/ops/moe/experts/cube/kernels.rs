//! The kernels of the experts that are no products, units or moves.

use crate::gpu::parts::sum_of_cube;
use crate::ops::moe::cube::sort::kernels::MISTAKE;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// The sizes of slots and rows.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Sizes {
    slots: usize,
    /// The number of slots of a token.
    choices: usize,
    /// The number of vectors of a row.
    vectors: usize,
    /// No number: the gradient of a routing weight whose expert does not exist.
    nan: f32,
}

/// Multiplies the row of one slot by its routing weight, in the result of the gated unit and in its gradient, and writes the
/// product of both before that, which is the gradient of the weight: a cube for each slot.
#[cube(launch_unchecked)]
pub(super) fn weigh<N: Size>(
    unit: &mut [Vector<f32, N>],
    d_unit: &mut [Vector<f32, N>],
    row_map: &[i32],
    routing: &[f32],
    d_routing: &mut [f32],
    sizes: &Sizes,
    #[comptime] units: usize,
) {
    let slot = CUBE_POS;
    if slot >= sizes.slots {
        terminate!();
    }
    let row = row_map[slot];
    // Slots without a row have the number of slots, or that of a mistake.
    let has_row = row >= 0 && row < sizes.slots as i32;
    let start = select(has_row, row, 0i32) as usize * sizes.vectors;
    let weight = Vector::new(routing[slot]);
    let mut sum = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while has_row && at < sizes.vectors {
        let (a, d) = (unit[start + at], d_unit[start + at]);
        sum += a * d;
        unit[start + at] = a * weight;
        d_unit[start + at] = d * weight;
        at += units;
    }
    let product = sum_of_cube(sum.vector_sum(), units);
    if UNIT_POS == 0 {
        d_routing[slot] = select(row == MISTAKE, sizes.nan, product);
    }
}

/// Adds the product of the bias of one slot's expert and the gradient of its token to the gradient of its routing weight: a
/// cube for each slot.
#[cube(launch_unchecked)]
pub(super) fn add_bias<N: Size>(
    bias: &[Vector<f32, N>],
    dy: &[Vector<f32, N>],
    indices: &[i32],
    row_map: &[i32],
    d_routing: &mut [f32],
    sizes: &Sizes,
    #[comptime] units: usize,
) {
    let slot = CUBE_POS;
    if slot >= sizes.slots {
        terminate!();
    }
    let row = row_map[slot];
    let has_row = row >= 0 && row < sizes.slots as i32;
    // A slot that has a row has an expert.
    let expert = select(has_row, indices[slot], 0i32) as usize;
    let token = slot / sizes.choices;
    let mut sum = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while has_row && at < sizes.vectors {
        sum += bias[expert * sizes.vectors + at] * dy[token * sizes.vectors + at];
        at += units;
    }
    let product = sum_of_cube(sum.vector_sum(), units);
    if UNIT_POS == 0 {
        d_routing[slot] += product;
    }
}

/// The columns whose rows are added up, in vectors.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Added {
    vectors: usize,
    /// The distance of two rows, and the first vector of each.
    stride: usize,
    first: usize,
    /// The number of slots of a token, if tokens are added up.
    choices: usize,
}

/// Writes the sum of an expert's rows, in their order, or of their tokens times the routing weights: a unit for each vector
/// of a row, and cubes along y for the experts.
#[cube(launch_unchecked)]
pub(super) fn sum_of_experts<N: Size>(
    rows: &[Vector<f32, N>],
    slots_of: ComptimeOption<&[i32]>,
    routing: ComptimeOption<&[f32]>,
    groups: &[i32],
    sums: &mut [Vector<f32, N>],
    added: &Added,
) {
    let column = ABSOLUTE_POS_X as usize;
    if column >= added.vectors {
        terminate!();
    }
    let expert = CUBE_POS_Y as usize;
    let (first, end) = (groups[expert] as usize, groups[expert + 1] as usize);
    let mut sum = Vector::<f32, N>::new(0.0);
    for row in first..end {
        let mut source = row;
        let mut weight = 1.0f32;
        if comptime!(slots_of.is_some()) {
            let slot = slots_of.unwrap()[row] as usize;
            source = slot / added.choices;
            weight = routing.unwrap()[slot];
        }
        sum += rows[source * added.stride + added.first + column] * Vector::new(weight);
    }
    sums[expert * added.vectors + column] = sum;
}
