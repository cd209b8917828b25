//! A counting sort of slots by expert, stable and without atomic operations: the rows of an expert are in the order of their
//! slots, and the same each time.
//!
//! | kernel | result |
//! |---|---|
//! | [`kernels::count`] | the number of slots of each expert in each part of the slots |
//! | [`kernels::add_parts`] | the same for the parts before, and for all parts |
//! | [`kernels::start`] | the first row of each expert |
//! | [`kernels::place`] | the row of each slot: the expert's first, and one more for each earlier slot of the expert |
//! | [`kernels::invert`] | the slot of each row |

pub(in crate::ops::moe) mod kernels;

use crate::gpu::launch::{
    contiguous, cubes, cubes_of, dim, filled_ints, uninitialised_ints, units,
};
use burn::backend::{Shape, TensorMetadata};
use burn_cubecl::cubecl::prelude::CubeCount;
use burn_cubecl::tensor::CubeTensor;
use kernels::{PART, UNITS};

/// The largest number of slots: the cubes along one dimension, of which WebGPU has fewer than 65,536, have a part each.
const MOST_SLOTS: usize = 65_535 * PART;

/// Returns whether kernels sort this number of slots by this number of experts.
pub(in crate::ops::moe) fn sorts(slots: usize, experts: usize) -> bool {
    let counts = slots.div_ceil(PART).checked_mul(experts);
    slots <= MOST_SLOTS && counts.is_some_and(|counts| counts < 1 << 31)
}

/// Slots sorted by expert.
pub(in crate::ops::moe) struct Sorted {
    /// The row of each slot, `[tokens, k]`: the number of slots if its expert is elsewhere, and [`MISTAKE`](kernels::MISTAKE)
    /// if there is no such expert.
    pub(in crate::ops::moe) rows: CubeTensor,
    /// The number of rows of each expert, `[experts]`, among those that are kept.
    pub(in crate::ops::moe) counts: CubeTensor,
}

/// Sorts the slots of indices `[tokens, k]` in i32 by expert. `rows` is the number of rows that are kept.
pub(in crate::ops::moe) fn by_expert(indices: CubeTensor, experts: usize, rows: usize) -> Sorted {
    let (shape, slots) = (indices.shape(), indices.shape().num_elements());
    let on = contiguous(indices);
    let ints = |shape| uninitialised_ints(&on, shape);
    if slots == 0 {
        return Sorted {
            rows: ints(shape),
            counts: filled_ints(&on, Shape::new([experts]), 0),
        };
    }
    let parts = slots.div_ceil(PART);
    let before = ints(Shape::new([parts, experts]));
    let [totals, counts] = [(); 2].map(|()| ints(Shape::new([experts])));
    let (starts, map) = (ints(Shape::new([experts + 1])), ints(shape));
    let (client, units) = (&on.client, units(experts));
    let along = |count: usize| u32::try_from(count).expect("`sorts` has checked the sizes");
    let grid = CubeCount::Static(along(experts.div_ceil(units)), along(parts), 1);
    // SAFETY: there is an index for each slot, a count for each expert of each part, a total and a count for each expert,
    // and one start more. Units beyond the experts, the slots and the parts end at once or touch nothing, and an index is
    // the place of a start only if it is an expert's.
    unsafe {
        kernels::count::launch_unchecked(
            client,
            grid,
            dim(units),
            on.clone().into_buffer_arg(),
            before.clone().into_buffer_arg(),
            slots,
            experts,
        );
        let (cubes_of_experts, dim_of_experts) = cubes_of(&on, units, experts);
        kernels::add_parts::launch_unchecked(
            client,
            cubes_of_experts,
            dim_of_experts,
            before.clone().into_buffer_arg(),
            totals.clone().into_buffer_arg(),
            parts,
            experts,
        );
        kernels::start::launch_unchecked(
            client,
            CubeCount::new_single(),
            dim(UNITS),
            totals.into_buffer_arg(),
            starts.clone().into_buffer_arg(),
            counts.clone().into_buffer_arg(),
            experts,
            rows,
        );
        kernels::place::launch_unchecked(
            client,
            cubes(&on, parts),
            dim(PART),
            on.clone().into_buffer_arg(),
            starts.into_buffer_arg(),
            before.into_buffer_arg(),
            map.clone().into_buffer_arg(),
            slots,
            experts,
        );
    }
    Sorted { rows: map, counts }
}

/// Returns the slot of each of `rows` rows, given the row of each slot in i32. A row without a slot has a number below 0.
/// If a row has two slots, it has one of these.
pub(in crate::ops::moe) fn inverse(row_map: &CubeTensor, rows: usize) -> CubeTensor {
    let slots = row_map.shape().num_elements();
    let slots_of = filled_ints(row_map, Shape::new([rows]), -1);
    if slots == 0 || rows == 0 {
        return slots_of;
    }
    let (cubes, dim) = cubes_of(row_map, units(slots), slots);
    // SAFETY: there is a row for each slot, and only numbers of rows are places in the result.
    unsafe {
        kernels::invert::launch_unchecked(
            &row_map.client,
            cubes,
            dim,
            row_map.clone().into_buffer_arg(),
            slots_of.clone().into_buffer_arg(),
            slots,
            rows,
        );
    }
    slots_of
}
