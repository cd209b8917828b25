use super::Matrix;
use super::transpose::Transpose;
use crate::cpu::Real;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

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

/// Rows of one length, and their transpose once something asks for it.
pub(in crate::ops::moe) struct Rows<'a, A> {
    values: &'a [A],
    count: usize,
    inputs: usize,
    transposed: OnceLock<Vec<A>>,
}

/// Lanes that `gemm` computes with in f32 under AVX-512: transposed rows are filled up to whole
/// ones, else it would copy them first.
const LANES: usize = 16;

impl<'a, A: Gemm> Rows<'a, A> {
    /// `count` rows of `inputs` elements, contiguous.
    pub(in crate::ops::moe) fn new(values: &'a [A], count: usize, inputs: usize) -> Self {
        debug_assert_eq!(values.len(), count * inputs);
        Self {
            values,
            count,
            inputs,
            transposed: OnceLock::new(),
        }
    }

    pub(super) fn values(&self) -> &'a [A] {
        self.values
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The number of rows, filled up to whole lanes.
    fn lanes(&self) -> usize {
        self.count.next_multiple_of(LANES)
    }

    /// `inputs × lanes`.
    fn transposed(&self) -> &[A] {
        self.transposed.get_or_init(|| {
            let lanes = self.lanes();
            let mut to = vec![<A as Gemm>::ZERO; self.inputs * lanes];
            let transpose = Transpose {
                from: self.values,
                rows: self.count,
                columns: self.inputs,
                stride: self.inputs,
                to: &mut to,
                to_stride: lanes,
                add: false,
            };
            transpose.run();
            to
        })
    }
}

/// The product with weights whose features lie together: its rows are rows of `out`.
pub(super) fn by_rows<A: Gemm>(
    rows: &Rows<'_, A>,
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
    // SAFETY: `out` is initialised.
    unsafe {
        multiply(
            [rows.count, weights.inputs, weights.features],
            (rows.values, left),
            (weights.data, right),
            (places(out), destination),
            add,
        );
    }
}

/// The product with weights whose inputs lie together. `gemm` would have to transpose the weights
/// to write rows, which costs more than a product with few rows. It gets the rows transposed and
/// writes features; those, few in comparison, are transposed back.
pub(super) fn by_features<A: Gemm>(
    rows: &Rows<'_, A>,
    weights: Matrix<'_, A>,
    scratch: &mut Vec<A>,
    out: &mut [A],
    stride: usize,
    add: bool,
) {
    let lanes = rows.lanes();
    scratch.resize(weights.features * lanes, Gemm::ZERO);
    let left = Strides {
        row: 1,
        column: lanes,
    };
    let right = Strides {
        row: weights.input_stride,
        column: weights.feature_stride,
    };
    let destination = Strides {
        row: 1,
        column: lanes,
    };
    // SAFETY: `scratch` is initialised.
    unsafe {
        multiply(
            [lanes, weights.inputs, weights.features],
            (rows.transposed(), left),
            (weights.data, right),
            (places(scratch), destination),
            false,
        );
    }
    let transpose = Transpose {
        from: scratch,
        rows: weights.features,
        columns: rows.count,
        stride: lanes,
        to: out,
        to_stride: stride,
        add,
    };
    transpose.run();
}
