use super::transpose::Transpose;
use super::{Matrix, Rows};
#[cfg(target_arch = "x86_64")]
use super::{large, packed, pairs, tiles};
use crate::{Element, Real};
use std::mem::MaybeUninit;

/// The types that products are computed in.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // Its kernels use all of it.
pub trait Gemm: Real + bytemuck::Pod {
    /// Zero, for buffers.
    const ZERO: Self = <Self as Real>::ZERO;

    /// Returns the values as f32, or `None` if the type is not f32. Only f32 has special kernels.
    fn as_f32(values: &[Self]) -> Option<&[f32]>;

    /// Works like [`Gemm::as_f32`], on mutable values.
    fn as_f32_mut(values: &mut [Self]) -> Option<&mut [f32]>;

    /// Works like the inverse of [`Gemm::as_f32`].
    fn of_f32(values: &[f32]) -> Option<&[Self]>;

    /// Works like [`Gemm::as_f32`], on elements that may not be initialised.
    fn as_f32_places(places: &mut [MaybeUninit<Self>]) -> Option<&mut [MaybeUninit<f32>]>;
}

impl Gemm for f32 {
    fn as_f32(values: &[Self]) -> Option<&[f32]> {
        Some(values)
    }

    fn as_f32_mut(values: &mut [Self]) -> Option<&mut [f32]> {
        Some(values)
    }

    fn of_f32(values: &[f32]) -> Option<&[Self]> {
        Some(values)
    }

    fn as_f32_places(places: &mut [MaybeUninit<Self>]) -> Option<&mut [MaybeUninit<f32>]> {
        Some(places)
    }
}

impl Gemm for f64 {
    fn as_f32(_: &[Self]) -> Option<&[f32]> {
        None
    }

    fn as_f32_mut(_: &mut [Self]) -> Option<&mut [f32]> {
        None
    }

    fn of_f32(_: &[f32]) -> Option<&[Self]> {
        None
    }

    fn as_f32_places(_: &mut [MaybeUninit<Self>]) -> Option<&mut [MaybeUninit<f32>]> {
        None
    }
}

/// The distances between rows and between columns of a matrix in memory, in elements.
#[derive(Clone, Copy)]
pub(super) struct Strides {
    pub(super) row: usize,
    pub(super) column: usize,
}

/// The message for an operand whose layout reaches beyond its storage.
pub(super) const BEYOND: &str = "a product of matrices reaches beyond the memory of an operand";

impl Strides {
    /// Returns the number of elements that a `rows × columns` matrix spans. Saturates if the strides of an unchecked
    /// layout reach beyond all memory.
    pub(super) fn reach(self, rows: usize, columns: usize) -> usize {
        match (rows, columns) {
            (0, _) | (_, 0) => 0,
            _ => {
                let (row, column) = (rows - 1, columns - 1);
                let last_row = row.saturating_mul(self.row);
                let last = last_row.saturating_add(column.saturating_mul(self.column));
                last.saturating_add(1)
            }
        }
    }
}

/// Returns initialised elements as places, for functions that also write uninitialised ones.
pub(super) fn places<A: Gemm>(values: &mut [A]) -> &mut [MaybeUninit<A>] {
    // SAFETY: the layouts are the same; the users, products of this folder, write only initialised values.
    unsafe { &mut *(std::ptr::from_mut(values) as *mut [MaybeUninit<A>]) }
}

/// The content of an element of 32 bits.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // Pairs are for its kernels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Terms {
    /// One f32.
    Single,
    /// Two bf16. Each is multiplied by its counterpart.
    Pairs,
}

/// The kind of a product. It determines which operand is traversed once, because it is not in the cache, and
/// which is traversed repeatedly.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The left operand has rows, the right one weights, which are traversed once, feature by feature.
    ByFeatures,
    /// The left operand has rows, the right one weights, which are traversed once, input by input.
    ByRows,
    /// Both operands have rows. `out` is written once, line by line.
    Outer,
}

/// The number of rows from which `gemm` multiplies f32, and the least of the other two sizes. What it spends on copying
/// operands into the order that its kernels read is then little beside the product.
pub(super) const MANY_ROWS: usize = 192;
const OTHERS: usize = 128;

impl Kind {
    /// Returns true if a product of `m × k` times `k × n` has so many rows that copying its operands pays.
    pub(super) fn is_copied(self, [m, k, n]: [usize; 3]) -> bool {
        let (rows, others) = match self {
            Self::ByFeatures | Self::ByRows => (m, k.min(n)),
            Self::Outer => (k, m.min(n)),
        };
        rows >= MANY_ROWS && others >= OTHERS
    }
}

/// The number of features or lines of a half type that `gemm` multiplies at once where it multiplies many rows. It copies the
/// other operand each time, so few would make the copies a good part of the work.
pub(super) const WIDE: usize = 256;

/// Returns true if this machine has a kernel of its own for products of half types with many rows.
pub(super) fn has_tiles() -> bool {
    #[cfg(target_arch = "x86_64")]
    return tiles::available();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Computes as [`multiply`] does, if this machine has a kernel of that kind for the type, the sizes and the strides.
/// Returns whether it has one.
///
/// # Safety
/// The requirements are those of [`multiply`].
pub(super) unsafe fn tiled<A: Gemm>(
    kind: Kind,
    [m, k, n]: [usize; 3],
    (left, left_strides): (&[A], Strides),
    (right, right_strides): (&[A], Strides),
    (out, out_strides): (&mut [MaybeUninit<A>], Strides),
    add: bool,
    terms: Terms,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if tiles::available()
        && (terms == Terms::Single || pairs::available::<half::bf16>())
        && (terms == Terms::Pairs || !kind.is_copied([m, k, n]))
        && let (Some(left), Some(right)) = (A::as_f32(left), A::as_f32(right))
        && let Some(out) = A::as_f32_places(out)
        && out_strides.column == 1
    {
        assert!(left_strides.reach(m, k) <= left.len(), "{BEYOND}");
        assert!(right_strides.reach(k, n) <= right.len(), "{BEYOND}");
        assert!(out_strides.reach(m, n) <= out.len(), "{BEYOND}");
        let left = tiles::Operand {
            data: left,
            k_stride: left_strides.column,
            stride: left_strides.row,
        };
        let right = tiles::Operand {
            data: right,
            k_stride: right_strides.row,
            stride: right_strides.column,
        };
        let (lanes, others, sizes) = match kind {
            Kind::ByFeatures => (left, right, [m, n]),
            Kind::ByRows | Kind::Outer => (right, left, [n, m]),
        };
        if lanes.stride == 1 && (others.stride == 1 || kind != Kind::Outer) {
            let sizes = tiles::Sizes {
                lanes: sizes[0],
                others: sizes[1],
                k,
            };
            let out = (out, out_strides.row);
            // SAFETY: as in `multiply`; the strides and the machine were checked above.
            unsafe { tiles::multiply(kind, sizes, lanes, others, out, add, terms) };
            return true;
        }
    }
    let _ = (kind, m, k, n, add, left, right, out, terms);
    let _ = (left_strides, right_strides, out_strides);
    false
}

/// Computes `out = left · right`, or `out += …` if `add`, for `m × k` times `k × n`, on this thread. `kind` selects
/// a special kernel, if the machine has it. Only special kernels take pairs.
///
/// # Safety
/// If `add`, the caller must have written the places of `out`.
pub(super) unsafe fn multiply<A: Gemm>(
    kind: Kind,
    [m, k, n]: [usize; 3],
    (left, left_strides): (&[A], Strides),
    (right, right_strides): (&[A], Strides),
    (out, out_strides): (&mut [MaybeUninit<A>], Strides),
    add: bool,
    terms: Terms,
) {
    #[cfg(target_arch = "x86_64")]
    if terms == Terms::Single && out_strides.column == 1 && large::takes::<A>([m, k, n]) {
        let (left, right) = ((left, left_strides), (right, right_strides));
        // SAFETY: the caller upholds the requirements.
        return unsafe { multiply_large([m, k, n], left, right, (out, out_strides), add) };
    }
    // SAFETY: the caller upholds the requirements.
    let done = unsafe {
        tiled(
            kind,
            [m, k, n],
            (left, left_strides),
            (right, right_strides),
            (&mut *out, out_strides),
            add,
            terms,
        )
    };
    if done {
        return;
    }
    assert!(terms == Terms::Single, "gemm knows no pairs");
    assert!(left_strides.reach(m, k) <= left.len(), "{BEYOND}");
    assert!(right_strides.reach(k, n) <= right.len(), "{BEYOND}");
    assert!(out_strides.reach(m, n) <= out.len(), "{BEYOND}");
    #[cfg(target_arch = "x86_64")]
    if out_strides.column == 1 {
        let sizes = [m, k, n];
        if packed::takes_block::<A>(sizes, right_strides) {
            let (left, right) = ((left, left_strides), (right, right_strides));
            let (left, right, out) = pointers(sizes, left, right, (out, out_strides));
            // SAFETY: the operands reach as far as the sizes, and `packed` says that it takes the product. `out` is borrowed
            // exclusively, and the caller has written it if `add`.
            return unsafe { packed::multiply_block(sizes, left, right, out, add) };
        }
    }
    // SAFETY: the assertions show that every element that strides and sizes reach is in its
    // slice. `out` is borrowed exclusively, so it overlaps neither of the others. It is read only
    // if `add`, and then the caller has written it.
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

/// Computes as [`multiply`] does, with the product of f32 that copies both operands.
///
/// # Safety
/// The requirements are those of [`multiply`]. [`large::takes`] must hold for the product, or for one that this is a part of.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn multiply_large<A: Gemm>(
    sizes @ [m, _, n]: [usize; 3],
    (left, left_strides): (&[A], Strides),
    (right, right_strides): (&[A], Strides),
    (out, out_strides): (&mut [MaybeUninit<A>], Strides),
    add: bool,
) {
    assert!(out_strides.reach(m, n) <= out.len(), "{BEYOND}");
    assert!(out_strides.column == 1, "a result with spaced columns");
    let (left, right) = (A::as_f32(left), A::as_f32(right));
    let (Some(left), Some(right), Some(out)) = (left, right, A::as_f32_places(out)) else {
        unreachable!("`large` takes products of f32 only")
    };
    let out = large::Out {
        first: out.as_mut_ptr().cast(),
        stride: out_strides.row,
    };
    let (left, right) = ((left, left_strides), (right, right_strides));
    // SAFETY: `out` is borrowed exclusively, and the caller has written it if `add`.
    unsafe { large::multiply(sizes, left, right, out, add) };
}

/// The first element of an operand of `packed`, and its strides.
#[cfg(target_arch = "x86_64")]
type Operand = (*const f32, Strides);

/// Returns the operands of a product of f32 as `packed` takes them.
///
/// # Panics
/// Panics if an operand is too short or of another type, or if rows of `out` are not contiguous.
#[cfg(target_arch = "x86_64")]
fn pointers<A: Gemm>(
    [m, k, n]: [usize; 3],
    (left, left_strides): (&[A], Strides),
    (right, right_strides): (&[A], Strides),
    (out, out_strides): (&mut [MaybeUninit<A>], Strides),
) -> (Operand, Operand, packed::Out) {
    assert!(left_strides.reach(m, k) <= left.len(), "{BEYOND}");
    assert!(right_strides.reach(k, n) <= right.len(), "{BEYOND}");
    assert!(out_strides.reach(m, n) <= out.len(), "{BEYOND}");
    assert!(out_strides.column == 1, "a result with spaced columns");
    let (Some(left), Some(right)) = (A::as_f32(left), A::as_f32(right)) else {
        unreachable!("`packed` takes products of f32 only")
    };
    let Some(out) = A::as_f32_places(out) else {
        unreachable!("`packed` takes products of f32 only")
    };
    let out = packed::Out {
        first: out.as_mut_ptr().cast(),
        stride: out_strides.row,
    };
    let (left, right) = (left.as_ptr(), right.as_ptr());
    ((left, left_strides), (right, right_strides), out)
}

/// Returns true if a product has so many rows that [`by_rows`] is the fastest in any order of the weights.
pub(super) fn are_many<T: Element>(rows: usize, weights: Matrix<'_, T>) -> bool {
    let sizes = [rows, weights.inputs, weights.features];
    #[cfg(target_arch = "x86_64")]
    if rows >= large::MANY_ROWS && large::takes::<T::Acc>(sizes) {
        return true;
    }
    Kind::ByRows.is_copied(sizes)
}

/// Computes the product with weights whose features are contiguous, or with [many](are_many) rows. Its rows are directly
/// the rows of `out`.
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
            Kind::ByRows,
            [rows.count, weights.inputs, weights.features],
            (rows.values, left),
            (weights.data, right),
            (places(out), destination),
            add,
            Terms::Single,
        );
    }
}

/// Computes the product of the rows that [`by_features`] leaves out.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))] // Elsewhere it leaves none out.
pub(super) fn by_quads<A: Gemm>(
    rows: &Rows<'_, A>,
    weights: Matrix<'_, A>,
    out: &mut [A],
    stride: usize,
    add: bool,
) {
    #[cfg(target_arch = "x86_64")]
    if let Some(quads) = rows.quads()
        && let (Some(data), Some(out)) = (A::as_f32(weights.data), A::as_f32_mut(out))
    {
        let weights = Matrix {
            data,
            inputs: weights.inputs,
            features: weights.features,
            input_stride: weights.input_stride,
            feature_stride: weights.feature_stride,
        };
        let out = &mut out[rows.whole * stride..];
        quads.multiply(weights, out, stride, add, Terms::Single);
    }
    debug_assert!(rows.all_whole() || cfg!(target_arch = "x86_64"));
}

/// Computes the product with weights whose inputs are contiguous, for the rows that fill vectors. Without a special
/// kernel, `gemm` would have to transpose the weights to write rows, which costs more than a product with few rows.
/// It therefore takes the rows transposed and writes features. The result, small in comparison, is transposed back.
pub(super) fn by_features<A: Gemm>(
    rows: &Rows<'_, A>,
    weights: Matrix<'_, A>,
    scratch: &mut Vec<A>,
    out: &mut [A],
    stride: usize,
    add: bool,
) {
    let lanes = rows.lanes();
    if lanes == 0 {
        return;
    }
    let left = Strides {
        row: 1,
        column: lanes,
    };
    let right = Strides {
        row: weights.input_stride,
        column: weights.feature_stride,
    };
    let direct = Strides {
        row: stride,
        column: 1,
    };
    let transposed = rows.transposed();
    // SAFETY: `out` is initialised.
    let done = unsafe {
        tiled(
            Kind::ByFeatures,
            [rows.whole, weights.inputs, weights.features],
            (transposed, left),
            (weights.data, right),
            (places(out), direct),
            add,
            Terms::Single,
        )
    };
    if done {
        return;
    }
    scratch.resize(weights.features * lanes, Gemm::ZERO);
    let destination = Strides {
        row: 1,
        column: lanes,
    };
    // SAFETY: `scratch` is initialised.
    unsafe {
        multiply(
            Kind::ByFeatures,
            [lanes, weights.inputs, weights.features],
            (transposed, left),
            (weights.data, right),
            (places(scratch), destination),
            false,
            Terms::Single,
        );
    }
    let transpose = Transpose {
        from: scratch,
        rows: weights.features,
        columns: rows.whole,
        stride: lanes,
        to: out,
        to_stride: stride,
        add,
    };
    transpose.run();
}
