//! The kernels of the sort. Slots are divided into parts of [`PART`], which are counted each by itself.

#![allow(
    clippy::needless_range_loop,
    reason = "kernels have no iterators over slices"
)]

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// The number of slots of a part, and of units of the cube that places them.
pub(super) const PART: usize = 256;

/// The number of units that add up the counts of all experts.
pub(super) const UNITS: usize = 256;

/// The entry of a row map for a slot whose expert does not exist.
pub(in crate::ops::moe) const MISTAKE: i32 = i32::MIN;

/// The expert of a unit without a slot.
const NOBODY: i32 = -1;

/// Writes the number of slots of one expert in one part: a unit for each expert, and cubes along y for the parts.
#[cube(launch_unchecked)]
pub(super) fn count(indices: &[i32], counts: &mut [i32], slots: usize, experts: usize) {
    let expert = ABSOLUTE_POS_X as usize;
    if expert >= experts {
        terminate!();
    }
    let part = CUBE_POS_Y as usize;
    let first = part * PART;
    let end = min(first + PART, slots);
    let mut count = 0i32;
    for slot in first..end {
        count += select(indices[slot] == expert as i32, 1i32, 0i32);
    }
    counts[part * experts + expert] = count;
}

/// Replaces the counts of one expert by those of the parts before, and writes the sum of all: a unit for each expert.
#[cube(launch_unchecked)]
pub(super) fn add_parts(counts: &mut [i32], totals: &mut [i32], parts: usize, experts: usize) {
    let expert = ABSOLUTE_POS;
    if expert >= experts {
        terminate!();
    }
    let mut sum = 0i32;
    for part in 0..parts {
        let at = part * experts + expert;
        let count = counts[at];
        counts[at] = sum;
        sum += count;
    }
    totals[expert] = sum;
}

/// Writes the first row of each expert and the number of all rows, and the number of each expert's rows among the first
/// `rows`. One cube does all.
#[cube(launch_unchecked)]
pub(super) fn start(
    totals: &[i32],
    starts: &mut [i32],
    counts: &mut [i32],
    experts: usize,
    rows: usize,
) {
    let each = experts.div_ceil(UNITS);
    let first = min(UNIT_POS as usize * each, experts);
    let end = min(first + each, experts);
    let mut sum = 0i32;
    for expert in first..end {
        sum += totals[expert];
    }
    let (before, all) = sum_before(sum, UNITS);
    let mut row = before;
    for expert in first..end {
        starts[expert] = row;
        let next = row + totals[expert];
        counts[expert] = min(next, rows as i32) - min(row, rows as i32);
        row = next;
    }
    if UNIT_POS == 0 {
        starts[experts] = all;
    }
}

/// Returns the sum of the numbers of the units before this one, and that of all units of the cube.
#[cube]
pub(in crate::ops::moe) fn sum_before(number: i32, #[comptime] units: usize) -> (i32, i32) {
    let unit = UNIT_POS as usize;
    let mut sums = Shared::<[i32]>::new_slice(units);
    sums[unit] = number;
    sync_cube();
    let mut distance = 1usize.runtime();
    while distance < units {
        let mut more = 0i32;
        if unit >= distance {
            more = sums[unit - distance];
        }
        sync_cube();
        sums[unit] += more;
        sync_cube();
        distance *= 2;
    }
    (sums[unit] - number, sums[comptime!(units - 1)])
}

/// Writes the row of each slot of one part: a unit for each slot.
#[cube(launch_unchecked)]
pub(super) fn place(
    indices: &[i32],
    starts: &[i32],
    before: &[i32],
    rows: &mut [i32],
    slots: usize,
    experts: usize,
) {
    let part = CUBE_POS;
    if part * PART >= slots {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let slot = part * PART + unit;
    let mut expert = NOBODY.runtime();
    if slot < slots {
        expert = indices[slot];
    }
    let mut of_part = Shared::<[i32]>::new_slice(PART);
    of_part[unit] = expert;
    sync_cube();
    if slot < slots {
        let mut row = MISTAKE.runtime();
        if expert == experts as i32 {
            row = slots as i32;
        } else if expert >= 0 && expert < experts as i32 {
            row = starts[expert as usize] + before[part * experts + expert as usize];
            for other in 0..unit {
                row += select(of_part[other] == expert, 1i32, 0i32);
            }
        }
        rows[slot] = row;
    }
}

/// Writes the slot of each row that has one: a unit for each slot. Other rows keep their number.
#[cube(launch_unchecked)]
pub(super) fn invert(row_map: &[i32], slots_of: &mut [i32], slots: usize, rows: usize) {
    let slot = ABSOLUTE_POS;
    if slot >= slots {
        terminate!();
    }
    let row = row_map[slot];
    if row >= 0 && row < rows as i32 {
        slots_of[row as usize] = slot as i32;
    }
}
