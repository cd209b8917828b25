//! The kernels of grouped products. A cube computes a tile of the result, 64 by 64, and each of its 256 units 4 by 4 numbers
//! of it. Both factors come through shared memory, 16 deep, with the numbers of a depth side by side: 8 or 9 KiB.
//!
//! Group `experts`, one past the last, has the rows that belong to nobody.

#![allow(
    clippy::needless_range_loop,
    reason = "kernels have no iterators over slices"
)]

use crate::gpu::elements::wide;
use crate::ops::moe::cube::sort::kernels::sum_before;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// The rows and columns of a tile.
pub(super) const TILE: usize = 64;

/// The number of units of a cube.
pub(super) const UNITS: usize = 256;

/// The number of products that are added between two loads.
const DEPTH: usize = 16;

/// The distance of two depths of a tile in shared memory. Four more than a tile has numbers, so that most units that write
/// one row to neighbouring depths write to different banks, and four neighbours stay one access.
const LINE: usize = TILE + 4;

/// The units along one side of a tile.
const SIDE: usize = 16;

/// Four neighbouring numbers, as shared memory holds them.
type Four = Vector<f32, Const<4>>;

/// The last axis of an expert's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Last {
    Inputs,
    Features,
}

/// The sizes of a product.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Sizes {
    experts: usize,
    /// The widths of a row of `x` and of one of the result.
    inputs: usize,
    features: usize,
    /// The distance of two rows of `x`, and the first element of the product in each.
    x_stride: usize,
    x_first: usize,
    /// The same of the result.
    y_stride: usize,
    y_first: usize,
    /// The number of rows that share a row of `x`, if rows have sources.
    choices: usize,
    /// No number: the result, if the counts are not those of the rows.
    nan: f32,
}

/// Writes the first row and the first tile of each group, one group after the other: those of each expert, those of the rows
/// of nobody, and the ends. The last number is 1 if the counts are not those of `rows` rows: all rows are nobody's then.
/// One cube does all.
#[cube(launch_unchecked)]
pub(super) fn plan(counts: &[i32], groups: &mut [i32], experts: usize, rows: usize) {
    let each = experts.div_ceil(UNITS);
    let first = min(UNIT_POS as usize * each, experts);
    let end = min(first + each, experts);
    let most = rows as i32;
    let mut sum = 0i32;
    let mut tiles = 0i32;
    let mut mistakes = 0i32;
    for expert in first..end {
        let count = counts[expert];
        if count < 0 || count > most {
            mistakes += 1i32;
        } else {
            // No sum of these overflows.
            sum = min(sum + count, most + 1);
            tiles += tiles_of(count);
        }
    }
    let (before, all) = sum_before(sum, UNITS);
    let (tiles_before, all_tiles) = sum_before(tiles, UNITS);
    let (_, all_mistakes) = sum_before(mistakes, UNITS);
    let is_wrong = all_mistakes > 0 || all > most;
    let ends = experts + 2;
    let mut row = before;
    let mut tile = tiles_before;
    for expert in first..end {
        groups[expert] = select(is_wrong, 0i32, row);
        groups[ends + expert] = select(is_wrong, 0i32, tile);
        row += counts[expert];
        tile += tiles_of(counts[expert]);
    }
    if UNIT_POS == 0 {
        let covered = select(is_wrong, 0i32, all);
        let tiles = select(is_wrong, 0i32, all_tiles);
        groups[experts] = covered;
        groups[experts + 1] = most;
        groups[ends + experts] = tiles;
        groups[ends + experts + 1] = tiles + tiles_of(most - covered);
        groups[2 * ends] = select(is_wrong, 1i32, 0i32);
    }
}

#[cube]
fn tiles_of(rows: i32) -> i32 {
    (rows + comptime!(TILE as i32 - 1)) / comptime!(TILE as i32)
}

/// Writes one tile of the product of each row with the weights of its group, or adds it.
#[cube(launch_unchecked)]
pub(super) fn product<E: Float, Y: Float, N: Size>(
    x: &[Vector<E, N>],
    sources: ComptimeOption<&[i32]>,
    weights: &[Vector<E, N>],
    bias: ComptimeOption<&[E]>,
    groups: &[i32],
    y: &mut [Y],
    sizes: &Sizes,
    #[comptime] last: Last,
    #[comptime] adds: bool,
    #[define(E, Y)] _elements: [ElemType; 2],
) {
    let experts = sizes.experts;
    let ends = experts + 2;
    let tile = CUBE_POS_Y as i32;
    if tile >= groups[ends + experts + 1] {
        terminate!();
    }
    let group = group_of(groups, ends, experts, tile);
    let first = (groups[group] + (tile - groups[ends + group]) * comptime!(TILE as i32)) as usize;
    let end = min(first + TILE, groups[group + 1] as usize);
    let columns = CUBE_POS_X as usize * TILE;
    let unit = UNIT_POS as usize;
    let (down, across) = (unit / SIDE, unit % SIDE);
    let mut sums = Array::<f32>::new(16usize);
    #[unroll]
    for j in 0..4usize {
        let mut start = 0.0f32;
        // With biases, sums start as what they are for rows of nobody. The group is not needed at the end then, where it would
        // be one number too many for the registers of some devices.
        if comptime!(bias.is_some()) {
            start = select(group < experts, 0.0f32, nobodys(groups, ends, sizes));
            let column = columns + across * 4 + j;
            if group < experts && column < sizes.features {
                start = f32::cast_from(bias.unwrap()[group * sizes.features + column]);
            }
        }
        #[unroll]
        for i in 0..4usize {
            sums[i * 4 + j] = start;
        }
    }
    if group < experts {
        let mut left = Shared::<[f32]>::new_slice(comptime!(DEPTH * LINE));
        let mut right = Shared::<[f32]>::new_slice(comptime!(DEPTH * LINE));
        let (line, part) = (unit / 4, unit % 4 * 4);
        // A tile has a row and a column. Units beyond the last one read it again, for numbers that are not written.
        let mut source = min(first + line, end - 1);
        if comptime!(sources.is_some()) {
            source = sources.unwrap()[source] as usize / sizes.choices;
        }
        let start = source * sizes.x_stride + sizes.x_first;
        let mut depth = 0usize.runtime();
        while depth < sizes.inputs {
            let of_x = four(x, start, depth + part, sizes.inputs);
            put(of_x, &mut left, part * LINE + line, LINE);
            match comptime!(last) {
                Last::Inputs => {
                    let feature = min(columns + line, sizes.features - 1);
                    let start = (group * sizes.features + feature) * sizes.inputs;
                    let of_weight = four(weights, start, depth + part, sizes.inputs);
                    put(of_weight, &mut right, part * LINE + line, LINE);
                }
                Last::Features => {
                    let mut of_weight = Four::new(0.0);
                    let input = depth + down;
                    if input < sizes.inputs {
                        let start = (group * sizes.inputs + input) * sizes.features;
                        of_weight = four(weights, start, columns + across * 4, sizes.features);
                    }
                    put(of_weight, &mut right, down * LINE + across * 4, 1usize);
                }
            }
            sync_cube();
            #[unroll]
            for d in 0..DEPTH {
                let a = taken(&left, d * LINE + down * 4);
                let b = taken(&right, d * LINE + across * 4);
                add_products(a, b, &mut sums);
            }
            // The next part is written where units still read.
            sync_cube();
            depth += DEPTH;
        }
    }
    let mut of_nobody = 0.0f32;
    if comptime!(bias.is_none()) {
        of_nobody = nobodys(groups, ends, sizes);
    }
    #[unroll]
    for i in 0..4usize {
        #[unroll]
        for j in 0..4usize {
            let (row, column) = (first + down * 4 + i, columns + across * 4 + j);
            if row < end && column < sizes.features {
                let mut value = sums[i * 4 + j];
                if comptime!(bias.is_none()) {
                    value = select(group < experts, value, of_nobody);
                }
                let at = row * sizes.y_stride + sizes.y_first + column;
                if comptime!(adds) {
                    value += f32::cast_from(y[at]);
                }
                y[at] = Y::cast_from(value);
            }
        }
    }
}

/// Returns the number that rows of nobody have.
#[cube]
fn nobodys(groups: &[i32], ends: usize, sizes: &Sizes) -> f32 {
    select(groups[2 * ends] == 1, sizes.nan, 0.0f32)
}

/// Returns the group of a tile: the last one that starts at it or before.
#[cube]
fn group_of(groups: &[i32], ends: usize, experts: usize, tile: i32) -> usize {
    let mut low = 0usize.runtime();
    let mut high = experts + 1;
    while low + 1 < high {
        let middle = (low + high) / 2;
        if groups[ends + middle] <= tile {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Returns four neighbouring numbers of a line that starts at `start`, zeros from its end on. `start` and `end` are multiples
/// of the size of a vector.
#[cube]
fn four<E: Float, N: Size>(numbers: &[Vector<E, N>], start: usize, at: usize, end: usize) -> Four {
    let mut result = Four::new(0.0);
    let size = N::value();
    #[unroll]
    for k in 0..comptime!(4 / size) {
        let place = at + comptime!(k * size);
        if place < end {
            let vector = wide(numbers[(start + place) / size]);
            #[unroll]
            for j in 0..size {
                result.insert(comptime!(k * size + j), vector.extract(j));
            }
        }
    }
    result
}

/// Writes four numbers to shared memory, `distance` from one to the next.
#[cube]
fn put(numbers: Four, to: &mut [f32], first: usize, #[comptime] distance: usize) {
    #[unroll]
    for k in 0..4usize {
        to[first + comptime!(k * distance)] = numbers.extract(k);
    }
}

/// Returns four neighbouring numbers of shared memory.
#[cube]
fn taken(from: &[f32], first: usize) -> Four {
    let mut result = Four::new(0.0);
    #[unroll]
    for k in 0..4usize {
        result.insert(k, from[first + k]);
    }
    result
}

/// Adds the products of four numbers of a row and four of a column of factors.
#[cube]
fn add_products(a: Four, b: Four, sums: &mut Array<f32>) {
    #[unroll]
    for i in 0..4usize {
        #[unroll]
        for j in 0..4usize {
            sums[i * 4 + j] += a.extract(i) * b.extract(j);
        }
    }
}

/// The sizes of the gradient of the weights.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Factors {
    experts: usize,
    /// The width of a row of the left and of the right factor.
    left: usize,
    right: usize,
    /// The distance of two rows of each, and the first element of the product in each.
    left_stride: usize,
    left_first: usize,
    right_stride: usize,
    right_first: usize,
    /// The number of rows that share a row of a factor, if its rows have sources.
    choices: usize,
    /// No number: the result, if the counts are not those of the rows.
    nan: f32,
}

/// The factors whose rows have sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Moved {
    pub(super) left: bool,
    pub(super) right: bool,
}

/// Writes one tile of the sum of the products of both factors over the rows of an expert, in their order. Cubes along z are
/// the experts'.
#[cube(launch_unchecked)]
pub(super) fn outer<E: Float, N: Size>(
    left: &[Vector<E, N>],
    right: &[Vector<E, N>],
    sources: ComptimeOption<&[i32]>,
    groups: &[i32],
    result: &mut [E],
    sizes: &Factors,
    #[comptime] moved: Moved,
    #[define(E)] _element: ElemType,
) {
    let (experts, expert) = (sizes.experts, CUBE_POS_Z as usize);
    let (first, end) = (groups[expert] as usize, groups[expert + 1] as usize);
    let (lines, columns) = (CUBE_POS_Y as usize * TILE, CUBE_POS_X as usize * TILE);
    let unit = UNIT_POS as usize;
    let (down, across) = (unit / SIDE, unit % SIDE);
    let mut sums = Array::<f32>::new(16usize);
    #[unroll]
    for i in 0..16usize {
        sums[i] = 0.0;
    }
    let mut of_left = Shared::<[Four]>::new_slice(comptime!(DEPTH * SIDE));
    let mut of_right = Shared::<[Four]>::new_slice(comptime!(DEPTH * SIDE));
    let mut depth = first;
    while depth < end {
        let row = depth + down;
        let mut a = Four::new(0.0);
        let mut b = Four::new(0.0);
        if row < end {
            let mut source = row;
            if comptime!(sources.is_some()) {
                source = sources.unwrap()[row] as usize / sizes.choices;
            }
            let left_row = if comptime!(moved.left) { source } else { row };
            let right_row = if comptime!(moved.right) { source } else { row };
            let start = left_row * sizes.left_stride + sizes.left_first;
            a = four(left, start, lines + across * 4, sizes.left);
            let start = right_row * sizes.right_stride + sizes.right_first;
            b = four(right, start, columns + across * 4, sizes.right);
        }
        of_left[unit] = a;
        of_right[unit] = b;
        sync_cube();
        #[unroll]
        for d in 0..DEPTH {
            let a = of_left[d * SIDE + down];
            let b = of_right[d * SIDE + across];
            add_products(a, b, &mut sums);
        }
        // The next rows are written where units still read.
        sync_cube();
        depth += DEPTH;
    }
    let is_wrong = groups[2 * (experts + 2)] == 1;
    #[unroll]
    for i in 0..4usize {
        #[unroll]
        for j in 0..4usize {
            let (line, column) = (lines + down * 4 + i, columns + across * 4 + j);
            if line < sizes.left && column < sizes.right {
                let at = (expert * sizes.left + line) * sizes.right + column;
                result[at] = E::cast_from(select(is_wrong, sizes.nan, sums[i * 4 + j]));
            }
        }
    }
}
