//! Sums over rows, in parts that the shape alone determines.

use super::launch::{contiguous, cubes_of, dim, element_of, uninitialised_as, units, vector_size};
use super::sum::sum_rows;
use burn::backend::{Shape, TensorMetadata};
use burn::tensor::DType;
use burn_cubecl::cubecl::prelude::{CubeCount, CubeDim};
use burn_cubecl::tensor::CubeTensor;

/// The number of rows that a part has at least.
const FEWEST_ROWS: usize = 16;

/// The largest number of parts.
const MOST_PARTS: usize = 256;

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
        let each = rows.div_ceil(MOST_PARTS).max(FEWEST_ROWS);
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

/// Returns the sum of the rows of a tensor `[rows, n]`, added in order in f32 and rounded once.
pub(crate) fn sum(sums: impl Into<Sums>) -> CubeTensor {
    let Sums { parts, dtype } = sums.into();
    let parts = contiguous(parts);
    let [rows, n] = parts.shape().dims();
    let y = uninitialised_as(&parts, Shape::new([n]), dtype);
    let size = vector_size(&[n]);
    let columns = n / size;
    let (cubes, dim) = cubes_of(&parts, units(columns), columns);
    // SAFETY: the kernel reads `rows · columns` vectors of `parts`, which has so many, and writes `columns` vectors
    // of `y`. Units beyond the columns end before they do either.
    unsafe {
        sum_rows::launch_unchecked(
            &parts.client.clone(),
            cubes,
            dim,
            size,
            parts.into_buffer_arg(),
            y.clone().into_buffer_arg(),
            rows,
            columns,
            element_of(&y),
        );
    }
    y
}
