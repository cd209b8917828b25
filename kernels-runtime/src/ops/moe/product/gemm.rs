use super::Matrix;
use crate::cpu::Real;
use std::mem::MaybeUninit;

/// The types that products are made in.
pub(in crate::ops::moe) trait Gemm: Real + bytemuck::Pod {
    /// Zero, for buffers.
    const ZERO: Self = <Self as Real>::ZERO;

    /// What [`super::dot`] needs of the type, if it has a kernel for it.
    fn as_f32(values: &[Self]) -> Option<&[f32]>;

    /// As [`Gemm::as_f32`].
    fn as_f32_mut(values: &mut [Self]) -> Option<&mut [f32]>;
}

impl Gemm for f32 {
    fn as_f32(values: &[Self]) -> Option<&[f32]> {
        Some(values)
    }

    fn as_f32_mut(values: &mut [Self]) -> Option<&mut [f32]> {
        Some(values)
    }
}

impl Gemm for f64 {
    fn as_f32(_: &[Self]) -> Option<&[f32]> {
        None
    }

    fn as_f32_mut(_: &mut [Self]) -> Option<&mut [f32]> {
        None
    }
}

/// A matrix in memory: how far apart rows and columns are.
#[derive(Clone, Copy)]
pub(super) struct Strides {
    pub(super) row: usize,
    pub(super) column: usize,
}

impl Strides {
    /// The elements that an `rows × columns` matrix reaches over.
    fn reach(self, rows: usize, columns: usize) -> usize {
        match (rows, columns) {
            (0, _) | (_, 0) => 0,
            _ => (rows - 1) * self.row + (columns - 1) * self.column + 1,
        }
    }
}

/// Initialised elements as places, for what also writes uninitialised ones.
fn places<A: Gemm>(values: &mut [A]) -> &mut [MaybeUninit<A>] {
    // SAFETY: of the same layout; `multiply`, the only user, writes nothing uninitialised.
    unsafe { &mut *(std::ptr::from_mut(values) as *mut [MaybeUninit<A>]) }
}

/// `out = left · right`, or `out += …` if `add`: `m × k` times `k × n`, on this thread.
///
/// # Safety
/// If `add`, the places of `out` have been written.
pub(super) unsafe fn multiply<A: Gemm>(
    [m, k, n]: [usize; 3],
    (left, left_strides): (&[A], Strides),
    (right, right_strides): (&[A], Strides),
    (out, out_strides): (&mut [MaybeUninit<A>], Strides),
    add: bool,
) {
    assert!(left_strides.reach(m, k) <= left.len());
    assert!(right_strides.reach(k, n) <= right.len());
    assert!(out_strides.reach(m, n) <= out.len());
    // SAFETY: the assertions show that every element that strides and sizes name lies in its
    // slice, and `out` is borrowed exclusively, so it overlaps neither of the others. It is only
    // read if `add`, and then the caller has written it.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr().cast(),
            out_strides.column as isize,
            out_strides.row as isize,
            add,
            left.as_ptr(),
            left_strides.column as isize,
            left_strides.row as isize,
            right.as_ptr(),
            right_strides.column as isize,
            right_strides.row as isize,
            A::ONE,
            A::ONE,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// The product with weights whose features lie together: its rows are rows of `out`.
pub(super) fn by_rows<A: Gemm>(
    rows: &[A],
    count: usize,
    weights: Matrix<'_, A>,
    out: &mut [A],
    stride: usize,
    add: bool,
) {
    let left = Strides {
        row: weights.inputs,
        column: 1,
    };
    let right = Strides {
        row: weights.input_stride,
        column: weights.feature_stride,
    };
    let destination = Strides {
        row: stride,
        column: 1,
    };
    let sizes = [count, weights.inputs, weights.features];
    // SAFETY: `out` is initialised.
    unsafe {
        multiply(
            sizes,
            (rows, left),
            (weights.data, right),
            (places(out), destination),
            add,
        );
    }
}

/// The product with weights whose inputs lie together. `gemm` would have to transpose the weights
/// to write rows, which costs more than a product with few rows; it writes features, and those,
/// few in comparison, are transposed.
pub(super) fn by_features<A: Gemm>(
    rows: &[A],
    count: usize,
    weights: Matrix<'_, A>,
    scratch: &mut Vec<A>,
    out: &mut [A],
    stride: usize,
    add: bool,
) {
    scratch.resize(weights.features * count, Gemm::ZERO);
    let left = Strides {
        row: weights.inputs,
        column: 1,
    };
    let right = Strides {
        row: weights.input_stride,
        column: weights.feature_stride,
    };
    let destination = Strides {
        row: 1,
        column: count,
    };
    let sizes = [count, weights.inputs, weights.features];
    // SAFETY: `scratch` is initialised.
    unsafe {
        multiply(
            sizes,
            (rows, left),
            (weights.data, right),
            (places(scratch), destination),
            false,
        );
    }
    pulp::Arch::new().dispatch(Transpose {
        from: scratch,
        rows: count,
        columns: weights.features,
        to: out,
        stride,
        add,
    });
}

/// Writes, or adds, the columns of `from` as rows. In squares, so that what is read and written
/// stays in the first-level cache.
struct Transpose<'a, A> {
    from: &'a [A],
    rows: usize,
    columns: usize,
    to: &'a mut [A],
    stride: usize,
    add: bool,
}

const SQUARE: usize = 16;

impl<A: Gemm> pulp::WithSimd for Transpose<'_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for row in (0..self.rows).step_by(SQUARE) {
            for column in (0..self.columns).step_by(SQUARE) {
                let width = SQUARE.min(self.columns - column);
                for r in row..(row + SQUARE).min(self.rows) {
                    let start = r * self.stride + column;
                    let to = &mut self.to[start..start + width];
                    let from = self.from[column * self.rows + r..]
                        .iter()
                        .step_by(self.rows);
                    if self.add {
                        to.iter_mut().zip(from).for_each(|(to, from)| *to += *from);
                    } else {
                        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                    }
                }
            }
        }
    }
}
