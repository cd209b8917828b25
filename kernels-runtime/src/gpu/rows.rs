//! Sums over rows, in parts that the shape alone determines.

use super::launch::{
    MOST_UNITS, contiguous, cubes, dim, element_of, uninitialised_as, units, vector_size,
};
use super::sum::sum_rows;
use burn::backend::{Shape, TensorMetadata};
use burn::tensor::DType;
use burn_cubecl::cubecl::prelude::{CubeCount, CubeDim};
use burn_cubecl::tensor::CubeTensor;
use std::ops::Range;

/// The number of rows that a part has at least, if each of its units has a column.
const FEWEST_ROWS: usize = 16;

/// The largest number of parts, if each of their units has a column.
const MOST_PARTS: usize = 256;

/// The number of rows that a part has at least, if it is one cube's.
const FEWEST_ROWS_OF_CUBE: usize = 8;

/// The largest number of units of parts that are one cube's each: half of what the largest GPUs run at a time.
const MOST_UNITS_OF_CUBES: usize = 1 << 17;

/// The largest number of vectors of a row that a unit holds. Each takes up to four registers of each tensor and sum.
const MOST_HELD: usize = 8;

/// The vectors of a row that a cube adds up, which are neighbours in memory, and so read together.
const ACROSS: usize = if MOST_UNITS < 8 { MOST_UNITS } else { 8 };

/// The division of rows into parts. Each part is summed by itself, and the sums are added in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// The number of rows of each part but the last.
    pub(crate) rows: usize,
    /// The number of parts.
    pub(crate) count: usize,
}

impl Parts {
    /// Divides rows.
    pub(crate) fn of(rows: usize) -> Self {
        Self::of_rows(rows, rows.div_ceil(MOST_PARTS).max(FEWEST_ROWS))
    }

    /// Divides rows for cubes of `units` units, each of which has all columns of its part.
    pub(crate) fn for_cubes(rows: usize, units: usize) -> Self {
        let most = MOST_UNITS_OF_CUBES / units;
        Self::of_rows(rows, rows.div_ceil(most).max(FEWEST_ROWS_OF_CUBE))
    }

    fn of_rows(rows: usize, each: usize) -> Self {
        Self {
            rows: each,
            count: rows.div_ceil(each),
        }
    }

    /// Returns cubes for the sums of each part: cubes along y for the parts, and units along x for `columns`.
    pub(crate) fn cubes(self, columns: usize) -> (CubeCount, CubeDim) {
        let units = units(columns);
        let count = |count: usize| u32::try_from(count).expect("tensors are counted in 32 bits");
        let cubes = CubeCount::Static(count(columns.div_ceil(units)), count(self.count), 1);
        (cubes, dim(units))
    }
}

/// Returns the number of vectors of a row that each of a cube's units holds in registers, or `None` if there are too many.
pub(crate) fn held(vectors: usize, units: usize) -> Option<usize> {
    Some(vectors.div_ceil(units)).filter(|each| *each <= MOST_HELD)
}

/// A tensor of partial sums in f32, `[rows, n]`, and the dtype of the whole sum. A tensor alone has a sum in f32.
pub(crate) struct Sums {
    parts: CubeTensor,
    dtype: DType,
}

impl From<CubeTensor> for Sums {
    fn from(parts: CubeTensor) -> Self {
        Self::from((parts, DType::F32))
    }
}

impl From<(CubeTensor, DType)> for Sums {
    fn from((parts, dtype): (CubeTensor, DType)) -> Self {
        Self { parts, dtype }
    }
}

/// Returns the sum of the rows of a tensor `[rows, n]`, added in one order in f32 and rounded once.
pub(crate) fn sum(sums: impl Into<Sums>) -> CubeTensor {
    let sums = sums.into();
    let n = sums.parts.shape()[1];
    sum_of(&sums, 0..n)
}

/// Returns the sums of the rows of the two halves of a tensor `[rows, 2 · n]`, each as [`sum`] returns one.
pub(crate) fn sum_of_halves(sums: impl Into<Sums>) -> [CubeTensor; 2] {
    let sums = sums.into();
    let n = sums.parts.shape()[1] / 2;
    [0..n, n..2 * n].map(|columns| sum_of(&sums, columns))
}

/// Returns the sum of the rows of some columns.
fn sum_of(sums: &Sums, columns: Range<usize>) -> CubeTensor {
    let parts = contiguous(sums.parts.clone());
    let [rows, n] = parts.shape().dims();
    let y = uninitialised_as(&parts, Shape::new([columns.len()]), sums.dtype);
    let size = vector_size(&[n, columns.start, columns.len()]);
    let [stride, first, columns] = [n, columns.start, columns.len()].map(|count| count / size);
    let lines = MOST_UNITS / ACROSS;
    // SAFETY: `parts` has `rows · stride` vectors, of which `first + columns` of each row are at most `stride`, and `y` has
    // `columns`. Units beyond the columns touch neither.
    unsafe {
        sum_rows::launch_unchecked(
            &parts.client.clone(),
            cubes(&parts, columns.div_ceil(ACROSS)),
            dim(ACROSS * lines),
            size,
            parts.into_buffer_arg(),
            y.clone().into_buffer_arg(),
            rows,
            stride,
            first,
            columns,
            ACROSS,
            lines,
            element_of(&y),
        );
    }
    y
}
