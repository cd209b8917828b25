//! The places of patches in their picture, in windows, and in a table of positions.

use super::Grid;

/// Returns the row and the column of each patch in its frame (`get_vision_position_ids`).
pub(crate) fn positions(grids: &[Grid], merge: usize) -> Vec<[usize; 2]> {
    let mut places = Vec::new();
    for grid in grids {
        let first = places.len();
        let blocks = grid.merged(merge);
        for block_row in 0..blocks.rows {
            for block_column in 0..blocks.columns {
                for inner in 0..merge * merge {
                    let row = block_row * merge + inner / merge;
                    places.push([row, block_column * merge + inner % merge]);
                }
            }
        }
        let frame = first..places.len();
        for _ in 1..grid.frames {
            places.extend_from_within(frame.clone());
        }
    }
    places
}

/// Returns the number of patches of each frame of each picture. A patch sees those of its frame
/// (`get_vision_cu_seqlens` has their sums).
pub(crate) fn frame_lengths(grids: &[Grid]) -> Vec<usize> {
    let of_one = |grid: &Grid| std::iter::repeat_n(grid.rows * grid.columns, grid.frames);
    grids.iter().flat_map(of_one).collect()
}

/// The windows of pictures, in which a patch sees those of its window alone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    /// The blocks of patches, those of a window one after the other.
    pub(crate) blocks: Vec<usize>,
    /// The number of patches of each window.
    pub(crate) lengths: Vec<usize>,
}

/// Returns the windows of `side · side` blocks, cut off at the borders of a frame (`get_vision_window_index`).
pub(crate) fn windows(grids: &[Grid], merge: usize, side: usize) -> Windows {
    let (mut blocks, mut lengths) = (Vec::new(), Vec::new());
    let mut first = 0;
    for grid in grids {
        let Grid {
            frames,
            rows,
            columns,
        } = grid.merged(merge);
        for _ in 0..frames {
            for top in (0..rows).step_by(side) {
                for left in (0..columns).step_by(side) {
                    let before = blocks.len();
                    for row in top..rows.min(top + side) {
                        let columns_of_window = left..columns.min(left + side);
                        blocks
                            .extend(columns_of_window.map(|column| first + row * columns + column));
                    }
                    lengths.push((blocks.len() - before) * merge * merge);
                }
            }
            first += rows * columns;
        }
    }
    Windows { blocks, lengths }
}

/// Returns for each patch the four entries of a table of `side · side` positions around it, and their weights. The corners
/// of a picture are those of the table (`get_vision_interpolation_indices_and_weights`, bilinear with aligned corners).
pub(crate) fn interpolation(
    grids: &[Grid],
    merge: usize,
    side: usize,
) -> (Vec<[usize; 4]>, Vec<[f64; 4]>) {
    // Returns the two entries of an axis and their weights.
    let taps = |at: usize, size: usize| {
        let place = (at * (side - 1)) as f64 / (size.max(2) - 1) as f64;
        let (floor, rest) = (place.floor() as usize, place.fract());
        [(floor, 1.0 - rest), ((floor + 1).min(side - 1), rest)]
    };
    let (mut entries, mut weights) = (Vec::new(), Vec::new());
    for grid in grids {
        for [row, column] in positions(std::slice::from_ref(grid), merge) {
            let (rows, columns) = (taps(row, grid.rows), taps(column, grid.columns));
            let pairs = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(y, x)| (rows[y], columns[x]));
            entries.push(pairs.map(|((row, _), (column, _))| row * side + column));
            weights.push(pairs.map(|((_, of_row), (_, of_column))| of_row * of_column));
        }
    }
    (entries, weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STILL: Grid = Grid {
        frames: 1,
        rows: 2,
        columns: 6,
    };

    #[test]
    fn blocks_follow_each_other() {
        let expected = [
            [0, 0],
            [0, 1],
            [1, 0],
            [1, 1],
            [0, 2],
            [0, 3],
            [1, 2],
            [1, 3],
        ];
        let found = positions(&[STILL], 2);
        assert_eq!(found.len(), 12);
        assert_eq!(found[..8], expected);
    }

    #[test]
    fn windows_are_cut_off_at_borders() {
        let clip = Grid {
            frames: 2,
            rows: 4,
            columns: 6,
        };
        let found = windows(&[clip], 2, 2);
        assert_eq!(found.blocks, [0, 1, 3, 4, 2, 5, 6, 7, 9, 10, 8, 11]);
        assert_eq!(found.lengths, [16, 8, 16, 8]);
        assert_eq!(frame_lengths(&[clip, STILL]), [24, 24, 12]);
    }

    /// A table of one position, and pictures of one row, have no next entry.
    #[test]
    fn corners_are_those_of_the_table() {
        let (entries, weights) = interpolation(&[STILL], 2, 3);
        // The last patch of the first row, and of the second.
        for (patch, corner) in [(9, 2), (11, 8)] {
            assert_eq!(entries[patch][0], corner);
            assert_eq!(weights[patch], [1.0, 0.0, 0.0, 0.0]);
        }
        let row = Grid { rows: 1, ..STILL };
        let (entries, _) = interpolation(&[row], 1, 1);
        assert!(entries.iter().all(|entries| *entries == [0; 4]));
    }
}
