//! Integer tensors as kernels take them, in i32.

use burn::backend::ops::IntTensorOps;
use burn::backend::tensor::{BoolTensor, IntTensor};
use burn::backend::{BoolDType, Cube, IntDType, Scalar, TensorMetadata};
use burn::tensor::DType;

/// The number that stands for numbers that i32 does not hold. It is neither a row nor an expert.
const OUTSIDE: i32 = -1;

/// Booleans as every device has them.
pub(crate) const BOOL: BoolDType = BoolDType::U32;

/// Returns the numbers in i32. Compares in their own type before they are converted: no number may wrap to that of a row.
pub(crate) fn entries(tensor: IntTensor<Cube>) -> IntTensor<Cube> {
    let number = |number: i64| Scalar::Int(number);
    let outside = |known, mask: BoolTensor<Cube>| {
        Cube::int_mask_fill(known, mask, number(i64::from(OUTSIDE)))
    };
    let (dtype, most) = (tensor.dtype(), i64::from(i32::MAX));
    if dtype == DType::I32 {
        return tensor;
    }
    let mut known = Cube::int_cast(tensor.clone(), IntDType::I32);
    match dtype {
        DType::I64 => {
            let above = Cube::int_greater_elem(tensor.clone(), number(most), BOOL);
            let below = Cube::int_lower_elem(tensor, number(i64::from(i32::MIN)), BOOL);
            known = outside(outside(known, above), below);
        }
        // The number above the largest is a mistake's, as it is converted from i32 to u32.
        DType::U32 | DType::U64 => {
            let above = Cube::int_greater_elem(tensor, number(most + 1), BOOL);
            known = outside(known, above);
        }
        _ => {}
    }
    known
}

/// Returns whether a type holds the numbers of the kernels, that of a mistake among them, so that
/// [`entries`] reads what [`returned`] has written.
pub(crate) fn holds_mistakes(ints: IntDType) -> bool {
    matches!(ints, IntDType::I32 | IntDType::I64 | IntDType::U32)
}

/// Returns numbers of the kernels in the type of integers that a call returns.
pub(crate) fn returned(tensor: IntTensor<Cube>, ints: IntDType) -> IntTensor<Cube> {
    match ints {
        IntDType::I32 => tensor,
        other => Cube::int_cast(tensor, other),
    }
}
