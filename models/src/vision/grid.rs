//! The sizes of pictures.

/// The numbers of patches of a picture, or of a clip of several frames: a row of `image_grid_thw`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// The number of frames, after those that a patch joins: 1 for a still.
    pub frames: usize,
    /// The number of rows of patches.
    pub rows: usize,
    /// The number of patches of a row.
    pub columns: usize,
}

impl Grid {
    /// Returns the grid of three numbers of a file, for blocks of `merge · merge` patches.
    ///
    /// # Errors
    /// Returns the problem with a number.
    pub(crate) fn new(numbers: [i64; 3], merge: usize) -> Result<Self, String> {
        let axes = ["frames", "rows", "columns"];
        let mut sizes = [0; 3];
        for ((size, number), axis) in sizes.iter_mut().zip(numbers).zip(axes) {
            // Products of three sizes of 32 bits fit in 128 bits.
            let number = u32::try_from(number).ok().filter(|number| *number > 0);
            *size = number
                .ok_or_else(|| format!("the number of {axis} must be from 1 to {}", u32::MAX))?
                as usize;
        }
        let [_, rows, columns] = sizes;
        if !rows.is_multiple_of(merge) || !columns.is_multiple_of(merge) {
            return Err(format!(
                "{rows} rows of {columns} patches are not whole blocks of {merge} by {merge}, which become one token"
            ));
        }
        Ok(sizes.into())
    }

    /// Returns the number of patches, which may be more than memory holds.
    pub(crate) fn patches(self) -> u128 {
        [self.frames, self.rows, self.columns]
            .iter()
            .map(|&size| size as u128)
            .product()
    }

    /// Returns the number of patches of a grid of whole blocks, or `None` for another, and for more than can be counted.
    pub(crate) fn whole(self, merge: usize) -> Option<usize> {
        let Self {
            frames,
            rows,
            columns,
        } = self;
        let is_whole = [rows, columns]
            .iter()
            .all(|side| *side > 0 && side.is_multiple_of(merge));
        let count = frames.checked_mul(rows)?.checked_mul(columns)?;
        (is_whole && frames > 0).then_some(count)
    }

    /// Returns the numbers of tokens: those of blocks of `merge · merge` patches.
    pub(crate) fn merged(self, merge: usize) -> Self {
        Self {
            frames: self.frames,
            rows: self.rows / merge,
            columns: self.columns / merge,
        }
    }

    /// Returns the number of patches, or of tokens, of all frames of a grid that fits in memory.
    pub(crate) fn count(self) -> usize {
        self.frames * self.rows * self.columns
    }
}

/// Takes frames, rows and columns, in this order.
impl From<[usize; 3]> for Grid {
    fn from([frames, rows, columns]: [usize; 3]) -> Self {
        Self {
            frames,
            rows,
            columns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_blocks_that_can_be_counted_are_counted() {
        let count = |frames, rows, columns| {
            let grid = Grid {
                frames,
                rows,
                columns,
            };
            grid.whole(2)
        };
        assert_eq!(count(3, 4, 6), Some(72));
        for [frames, rows, columns] in [[0, 4, 4], [1, 0, 4], [1, 3, 4], [1, 4, 5], [1 << 62, 2, 2]]
        {
            assert_eq!(count(frames, rows, columns), None);
        }
    }
}
