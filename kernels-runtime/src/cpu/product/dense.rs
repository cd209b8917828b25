//! Products of whole tensors in f32 and f64.

use super::gemm::{BEYOND, Strides};
use crate::cpu::awake::keep_others_awake;
use crate::cpu::{Element, Real, Unwritten};
use std::any::TypeId;

/// The number of multiplications from which the product of [`dense`] uses rayon's threads: that of Burn's Flex.
const PARALLEL: usize = 192 * 192 * 192;

/// Computes `out = left · right` for `m × k` times `k × n` in f32 or f64, and returns it. The call is that of Burn's Flex,
/// so that the bits are the same.
///
/// # Panics
/// Panics for other types, or if an operand is too short.
pub(super) fn dense<'o, T: Element>(
    [m, k, n]: [usize; 3],
    (left, left_strides): (&[T], Strides),
    (right, right_strides): (&[T], Strides),
    mut out: Unwritten<'o, T>,
) -> &'o mut [T] {
    let [zero, one] = [<T::Acc as Real>::ZERO, <T::Acc as Real>::ONE].map(T::round);
    if k == 0 {
        return out.filled(zero);
    }
    assert!(TypeId::of::<T>() == TypeId::of::<T::Acc>(), "a half type");
    assert!(left_strides.reach(m, k) <= left.len(), "{BEYOND}");
    assert!(right_strides.reach(k, n) <= right.len(), "{BEYOND}");
    assert!(out.len() == m * n, "a product of {m} × {n} elements");
    let parallelism = match m.saturating_mul(n).saturating_mul(k) < PARALLEL {
        true => gemm::Parallelism::None,
        false => {
            keep_others_awake();
            gemm::Parallelism::Rayon(0)
        }
    };
    // SAFETY: the assertions show that every element that strides and sizes reach is in its slice. `out` is borrowed
    // exclusively, so it overlaps neither of the others. It is not read, and the product writes each of its elements.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.places().as_mut_ptr().cast::<T>(),
            1,
            n as isize,
            false,
            left.as_ptr(),
            left_strides.column as isize,
            left_strides.row as isize,
            right.as_ptr(),
            right_strides.column as isize,
            right_strides.row as isize,
            zero,
            one,
            false,
            false,
            false,
            parallelism,
        );
        out.assume_written()
    }
}
