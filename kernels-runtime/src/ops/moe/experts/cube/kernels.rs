//! The kernels of the experts that are no products, units or moves.

use crate::gpu::elements::{narrow, wide};
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
pub(super) fn weigh<E: Float, R: Float, D: Float, N: Size>(
    unit: &mut [Vector<E, N>],
    d_unit: &mut [Vector<E, N>],
    row_map: &[i32],
    routing: &[R],
    d_routing: &mut [D],
    sizes: &Sizes,
    #[comptime] units: usize,
    #[define(E, R, D)] _elements: [ElemType; 3],
) {
    let slot = CUBE_POS;
    if slot >= sizes.slots {
        terminate!();
    }
    let row = row_map[slot];
    // Slots without a row have the number of slots, or that of a mistake.
    let has_row = row >= 0 && row < sizes.slots as i32;
    let start = select(has_row, row, 0i32) as usize * sizes.vectors;
    let weight = Vector::new(f32::cast_from(routing[slot]));
    let mut sum = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while has_row && at < sizes.vectors {
        let (a, d) = (wide(unit[start + at]), wide(d_unit[start + at]));
        sum += a * d;
        unit[start + at] = narrow(a * weight);
        d_unit[start + at] = narrow(d * weight);
        at += units;
    }
    let product = sum_of_cube(sum.vector_sum(), units);
    if UNIT_POS == 0 {
        d_routing[slot] = D::cast_from(select(row == MISTAKE, sizes.nan, product));
    }
}

/// Writes the gradient of one slot's routing weight: the sum of that without biases, and of the product of the bias of its
/// expert and the gradient of its token. A cube for each slot.
#[cube(launch_unchecked)]
pub(super) fn add_bias<E: Float, R: Float, N: Size>(
    bias: &[Vector<E, N>],
    dy: &[Vector<E, N>],
    indices: &[i32],
    row_map: &[i32],
    without: &[f32],
    d_routing: &mut [R],
    sizes: &Sizes,
    #[comptime] units: usize,
    #[define(E, R)] _elements: [ElemType; 2],
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
        let of_expert = wide(bias[expert * sizes.vectors + at]);
        sum += of_expert * wide(dy[token * sizes.vectors + at]);
        at += units;
    }
    let product = sum_of_cube(sum.vector_sum(), units);
    if UNIT_POS == 0 {
        d_routing[slot] = R::cast_from(without[slot] + product);
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
pub(super) fn sum_of_experts<E: Float, R: Float, N: Size>(
    rows: &[Vector<E, N>],
    slots_of: ComptimeOption<&[i32]>,
    routing: ComptimeOption<&[R]>,
    groups: &[i32],
    sums: &mut [Vector<E, N>],
    added: &Added,
    #[define(E, R)] _elements: [ElemType; 2],
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
            weight = f32::cast_from(routing.unwrap()[slot]);
        }
        let term = wide(rows[source * added.stride + added.first + column]);
        sum += term * Vector::new(weight);
    }
    sums[expert * added.vectors + column] = narrow(sum);
}
