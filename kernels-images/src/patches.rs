//! Pictures in patches.

use crate::Picture;

/// The `pixel_values` of a picture, `[patches, 3 · frames · patch · patch]`, and its row of `image_grid_thw`.
///
/// Patches are in blocks of `merge · merge`, of which each becomes one token. Blocks are in the order of reading, and
/// so are the patches of a block. In a patch, the order is colour, frame, row, column. A still picture repeats its
/// frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Patches {
    values: Vec<f32>,
    grid: [usize; 3],
    width: usize,
}

impl Patches {
    /// Cuts a picture whose sides are multiples of `patch · merge`. `levels` are the numbers of samples, by colour.
    pub(crate) fn cut(
        picture: &Picture,
        levels: &[[f32; 256]; 3],
        [patch, frames, merge]: [usize; 3],
    ) -> Self {
        let grid @ [_, rows, columns] = grid(picture.size(), patch);
        let width = width(patch, frames);
        let mut values = Vec::with_capacity(rows * columns * width);
        for (block, across) in pairs(rows / merge, columns / merge) {
            for (inside, aside) in pairs(merge, merge) {
                let corner =
                    [block * merge + inside, across * merge + aside].map(|place| place * patch);
                for (level, colour) in levels.iter().zip(0..) {
                    let frame = values.len();
                    for row in 0..patch {
                        let start = 3 * ((corner[0] + row) * picture.size()[0] + corner[1]);
                        let pixels = picture.rgb()[start..start + 3 * patch].chunks_exact(3);
                        values.extend(pixels.map(|pixel| level[usize::from(pixel[colour])]));
                    }
                    for _ in 1..frames {
                        values.extend_from_within(frame..frame + patch * patch);
                    }
                }
            }
        }
        Self {
            values,
            grid,
            width,
        }
    }

    /// Returns the numbers, patch by patch.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Returns the numbers, patch by patch, without copying them.
    pub fn into_values(self) -> Vec<f32> {
        self.values
    }

    /// Returns the number of patches in time, which is 1, in height and in width.
    pub fn grid(&self) -> [usize; 3] {
        self.grid
    }

    /// Returns the number of elements of a patch, `3 · frames · patch · patch`.
    pub fn width(&self) -> usize {
        self.width
    }
}

/// Returns the grid of a still picture whose sides are multiples of `patch`.
pub(crate) fn grid(size: [usize; 2], patch: usize) -> [usize; 3] {
    let [columns, rows] = size.map(|side| side / patch);
    [1, rows, columns]
}

/// Returns the number of elements of a patch.
pub(crate) fn width(patch: usize, frames: usize) -> usize {
    3 * frames * patch * patch
}

fn pairs(rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
}
