//! Sets of dtypes that base operators take.

use crate::DType::{self, BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

pub(super) const FLOATS: &[DType] = &[F32, F16, BF16];
/// [`FLOATS`] and f64.
pub(super) const REALS: &[DType] = &[F32, F16, BF16, F64];
/// [`REALS`] and the integers that operators compute with.
pub(super) const NUMBERS: &[DType] = &[F32, F16, BF16, F64, I64, I32, I16, I8, U8];
/// [`NUMBERS`] and bool.
pub(super) const USUAL: &[DType] = &[F32, F16, BF16, F64, I64, I32, I16, I8, U8, Bool];
/// [`USUAL`] and the other unsigned integers.
pub(super) const ALL: &[DType] = &[
    F32, F16, BF16, F64, I64, I32, I16, I8, U8, Bool, U16, U32, U64,
];
/// The integers that operators compute with.
pub(super) const INTEGERS: &[DType] = &[I64, I32, I16, I8, U8];
/// [`INTEGERS`] and bool.
pub(super) const BITS: &[DType] = &[I64, I32, I16, I8, U8, Bool];
/// The dtypes of indices.
pub(super) const INDICES: &[DType] = &[I64, I32];

/// Returns `true` if the dtype is a floating-point type.
pub(super) fn is_float(dtype: DType) -> bool {
    REALS.contains(&dtype)
}
