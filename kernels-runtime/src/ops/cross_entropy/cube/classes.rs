//! The targets as the kernels take them.

use super::kernels::IGNORED;
use burn::backend::ops::IntTensorOps;
use burn::backend::tensor::{BoolTensor, IntTensor};
use burn::backend::{BoolDType, Cube, IntDType, Scalar, TensorMetadata};
use burn::tensor::DType;

/// The class of a token whose target is neither a class nor the ignored index: below zero, and not [`IGNORED`].
const MISTAKE: i32 = -2;

/// Booleans as every device has them.
const BOOL: BoolDType = BoolDType::U32;

/// Returns the class of each token in i32: [`IGNORED`] for ignored tokens, and [`MISTAKE`] for a target that is neither a
/// class nor the ignored index. Compares in the type of the targets, whose numbers i32 may not hold.
pub(in crate::ops) fn of_targets(
    targets: IntTensor<Cube>,
    classes: usize,
    ignored: i64,
) -> IntTensor<Cube> {
    let number = |number: i32| Scalar::Int(i64::from(number));
    let fill = |known, mask: BoolTensor<Cube>, with| Cube::int_mask_fill(known, mask, number(with));
    let (dtype, classes) = (targets.dtype(), i64::try_from(classes).unwrap_or(i64::MAX));
    let mut known = Cube::int_cast(targets.clone(), IntDType::I32);
    if holds(dtype, -1) {
        let below = Cube::int_lower_elem(targets.clone(), number(0), BOOL);
        known = fill(known, below, MISTAKE);
    }
    if holds(dtype, classes) {
        let above = Cube::int_greater_equal_elem(targets.clone(), Scalar::Int(classes), BOOL);
        known = fill(known, above, MISTAKE);
    }
    if holds(dtype, ignored) {
        let is_ignored = Cube::int_equal_elem(targets, Scalar::Int(ignored), BOOL);
        known = fill(known, is_ignored, IGNORED);
    }
    known
}

/// Returns true if a type of integers has the number.
fn holds(dtype: DType, number: i64) -> bool {
    match dtype {
        DType::I64 => true,
        DType::I32 => i32::try_from(number).is_ok(),
        DType::I16 => i16::try_from(number).is_ok(),
        DType::I8 => i8::try_from(number).is_ok(),
        DType::U64 => u64::try_from(number).is_ok(),
        DType::U32 => u32::try_from(number).is_ok(),
        DType::U16 => u16::try_from(number).is_ok(),
        DType::U8 => u8::try_from(number).is_ok(),
        other => panic!("targets are integers, not {other:?}"),
    }
}
