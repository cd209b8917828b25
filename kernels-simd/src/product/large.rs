//! Large products of f32, which copy both operands first: in tiles of AMX, or with AVX2.
//!
//! An element has the same bits, whatever part of the result a call computes, if parts begin at multiples of 16.

use super::amx::{Source, single};
use super::gemm::{BEYOND, Strides};
use super::packed;
pub(super) use super::packed::Out;
use std::any::TypeId;

/// The number of multiplications, and the least number of rows and of columns, from which copies of both operands pay.
const LEAST: usize = 1 << 21;
const LEAST_SIDE: usize = 16;

/// The number of rows from which copies pay even for weights that another product would read in place.
pub(super) const MANY_ROWS: usize = 48;

/// Returns whether [`multiply`] is the fastest product of `m × k` with `k × n` on this machine, if it is one of `T`.
pub(super) fn takes<T: 'static>(sizes @ [m, k, n]: [usize; 3]) -> bool {
    let multiplications = m.saturating_mul(n).saturating_mul(k);
    let is_large = multiplications >= LEAST && m.min(n) >= LEAST_SIDE;
    is_large
        && TypeId::of::<T>() == TypeId::of::<f32>()
        && (packed::is_fastest() || single::takes(sizes))
}

/// Computes `out = left · right`, or `out += …` if `add`, for `m × k` times `k × n`, on this thread.
///
/// # Safety
/// Every element of `out` must be writable, and nothing else may access it meanwhile. If `add`, the caller must have written it.
///
/// # Panics
/// Panics if an operand is too short, or if this machine has no such product.
pub(super) unsafe fn multiply(
    sizes @ [m, k, n]: [usize; 3],
    (left, left_strides): (&[f32], Strides),
    (right, right_strides): (&[f32], Strides),
    out: Out,
    add: bool,
) {
    if single::available() && k > 0 {
        let left = Source {
            data: left,
            count: m,
            k,
            stride: left_strides.row,
            k_stride: left_strides.column,
        };
        let right = Source {
            data: right,
            count: n,
            k,
            stride: right_strides.column,
            k_stride: right_strides.row,
        };
        let Out { first, stride } = out;
        let out = single::Out { first, stride, add };
        // SAFETY: the caller upholds the requirements for `out`. Operands are checked there.
        return unsafe { single::multiply(left, right, out) };
    }
    assert!(packed::has_instructions(), "this machine has no AVX2");
    assert!(left_strides.reach(m, k) <= left.len(), "{BEYOND}");
    assert!(right_strides.reach(k, n) <= right.len(), "{BEYOND}");
    let (left, right) = (left.as_ptr(), right.as_ptr());
    // SAFETY: the operands reach as far as the sizes, and the machine has the instructions. The caller upholds the rest.
    unsafe {
        packed::multiply(
            sizes,
            (left, left_strides),
            (right, right_strides),
            out,
            add,
        )
    };
}
