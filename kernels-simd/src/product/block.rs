use super::gemm::{Gemm, Kind, Strides, Terms, multiply, places};

/// A part of a matrix in memory, with the distances between its rows and between its columns.
#[derive(Clone, Copy)]
pub struct Block<'a, A> {
    pub data: &'a [A],
    pub row_stride: usize,
    pub column_stride: usize,
}

impl<'a, A> Block<'a, A> {
    /// Returns a block whose rows are contiguous.
    pub fn rows(data: &'a [A], stride: usize) -> Self {
        Self {
            data,
            row_stride: stride,
            column_stride: 1,
        }
    }

    /// Returns the block with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self {
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    fn strides(self) -> Strides {
        Strides {
            row: self.row_stride,
            column: self.column_stride,
        }
    }
}

/// Computes `out = left · right`, or `out += …` if `add`, for blocks of `m × k` and `k × n` elements that are in the cache,
/// on this thread. Rows of `out` are contiguous, `stride` apart. It is fastest if the rows of `right` are contiguous too.
///
/// # Panics
/// Panics if a block reaches beyond its elements.
pub fn multiply_blocks<A: Gemm>(
    [m, k, n]: [usize; 3],
    left: Block<'_, A>,
    right: Block<'_, A>,
    (out, stride): (&mut [A], usize),
    add: bool,
) {
    let destination = Strides {
        row: stride,
        column: 1,
    };
    // SAFETY: `out` is initialised.
    unsafe {
        multiply(
            Kind::ByRows,
            [m, k, n],
            (left.data, left.strides()),
            (right.data, right.strides()),
            (places(out), destination),
            add,
            Terms::Single,
        );
    }
}
