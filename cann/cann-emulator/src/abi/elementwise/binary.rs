//! Operators of two tensors.

use super::power::check_power;
use super::{COUNTS, Dtypes, FMOD, Gives, UP_TO_U16, WIDE, two, zip};
use crate::abi::prelude::*;
use crate::ops::arithmetic::{Arithmetic, Float};

/// Defines operators of two tensors, and their forms in place.
macro_rules! of_two {
    ($(
        $one:ident, $two:ident $(; $place_one:ident, $place_two:ident)?:
        $dtypes:expr, $gives:ident => |$x:ident| $work:expr;
    )*) => {$(
        with_place! { elementwise: $one, $two $(; $place_one, $place_two)? (input, rhs) |operands, to|
            let $x = two(operands, [input, rhs], to, $dtypes, Gives::$gives)?;
            Ok($work)
        }
    )*};
}

/// Returns the work of a function of two booleans. Bytes other than 0 are true.
fn truth(dtypes: Dtypes, apply: fn(bool, bool) -> bool) -> Work {
    zip(dtypes, move |left: f64, right: f64| {
        i64::from(apply(left.is_true(), right.is_true()))
    })
}

/// Returns the work of a function of the bits of integers, or of the lowest bit of booleans.
fn bits(dtypes: Dtypes, apply: fn(i64, i64) -> i64) -> Work {
    zip(dtypes, apply)
}

of_two! {
    aclnnClampMinTensorGetWorkspaceSize, aclnnClampMinTensor;
        aclnnInplaceClampMinTensorGetWorkspaceSize, aclnnInplaceClampMinTensor:
        NUMBERS, Same => |x| arithmetic!(x, maximum);
    aclnnClampMaxTensorGetWorkspaceSize, aclnnClampMaxTensor;
        aclnnInplaceClampMaxTensorGetWorkspaceSize, aclnnInplaceClampMaxTensor:
        NUMBERS, Same => |x| arithmetic!(x, minimum);
    aclnnMulGetWorkspaceSize, aclnnMul; aclnnInplaceMulGetWorkspaceSize, aclnnInplaceMul:
        USUAL, Same => |x| arithmetic!(x, mul);
    aclnnDivGetWorkspaceSize, aclnnDiv; aclnnInplaceDivGetWorkspaceSize, aclnnInplaceDiv:
        USUAL, Quotient
        => |x| by_float!(x.of, T => zip(x, <T as Float>::div));
    aclnnMaximumGetWorkspaceSize, aclnnMaximum: USUAL, Same => |x| arithmetic!(x, maximum);
    aclnnMinimumGetWorkspaceSize, aclnnMinimum: USUAL, Same => |x| arithmetic!(x, minimum);
    aclnnPowTensorTensorGetWorkspaceSize, aclnnPowTensorTensor;
        aclnnInplacePowTensorTensorGetWorkspaceSize, aclnnInplacePowTensorTensor: USUAL, Same
        => |x| {
            check_power(x)?;
            arithmetic!(x, power)
        };
    aclnnRemainderTensorTensorGetWorkspaceSize, aclnnRemainderTensorTensor;
        aclnnInplaceRemainderTensorTensorGetWorkspaceSize, aclnnInplaceRemainderTensorTensor: WIDE, Same
        => |x| arithmetic!(x, remainder);
    aclnnFmodTensorGetWorkspaceSize, aclnnFmodTensor;
        aclnnInplaceFmodTensorGetWorkspaceSize, aclnnInplaceFmodTensor: FMOD, Same => |x| arithmetic!(x, fmod);
    aclnnAtan2GetWorkspaceSize, aclnnAtan2: USUAL, Float
        => |x| by_float!(x.of, T => zip(x, <T as Float>::atan2));
    aclnnBitwiseAndTensorGetWorkspaceSize, aclnnBitwiseAndTensor;
        aclnnInplaceBitwiseAndTensorGetWorkspaceSize, aclnnInplaceBitwiseAndTensor: BITS, Same
        => |x| bits(x, |left, right| left & right);
    aclnnBitwiseOrTensorGetWorkspaceSize, aclnnBitwiseOrTensor;
        aclnnInplaceBitwiseOrTensorGetWorkspaceSize, aclnnInplaceBitwiseOrTensor: BITS, Same
        => |x| bits(x, |left, right| left | right);
    aclnnBitwiseXorTensorGetWorkspaceSize, aclnnBitwiseXorTensor;
        aclnnInplaceBitwiseXorTensorGetWorkspaceSize, aclnnInplaceBitwiseXorTensor: BITS, Same
        => |x| bits(x, |left, right| left ^ right);
    // A shift beyond the width leaves nothing, or the sign. So does a negative shift, which CANN leaves undefined.
    aclnnLeftShiftGetWorkspaceSize, aclnnLeftShift: INTEGERS, Same
        => |x| bits(x, |left, right| if (0..64).contains(&right) { left << right } else { 0 });
    aclnnRightShiftGetWorkspaceSize, aclnnRightShift: INTEGERS, Same
        => |x| bits(x, |left, right| left >> if right < 0 { 63 } else { right.min(63) });
    aclnnLogicalAndGetWorkspaceSize, aclnnLogicalAnd;
        aclnnInplaceLogicalAndGetWorkspaceSize, aclnnInplaceLogicalAnd: USUAL, Bool => |x| truth(x, |a, b| a && b);
    aclnnLogicalOrGetWorkspaceSize, aclnnLogicalOr;
        aclnnInplaceLogicalOrGetWorkspaceSize, aclnnInplaceLogicalOr: USUAL, Bool => |x| truth(x, |a, b| a || b);
    aclnnLogicalXorGetWorkspaceSize, aclnnLogicalXor: USUAL, Bool => |x| truth(x, |a, b| a != b);
    aclnnEqTensorGetWorkspaceSize, aclnnEqTensor;
        aclnnInplaceEqTensorGetWorkspaceSize, aclnnInplaceEqTensor: USUAL, Bool => |x| compared!(x, ==);
    aclnnNeTensorGetWorkspaceSize, aclnnNeTensor;
        aclnnInplaceNeTensorGetWorkspaceSize, aclnnInplaceNeTensor: USUAL, Bool => |x| compared!(x, !=);
    aclnnGtTensorGetWorkspaceSize, aclnnGtTensor; aclnnInplaceGtTensorGetWorkspaceSize, aclnnInplaceGtTensor:
        ALL, Bool => |x| compared!(x, >);
    aclnnGeTensorGetWorkspaceSize, aclnnGeTensor;
        aclnnInplaceGeTensorGetWorkspaceSize, aclnnInplaceGeTensor: COUNTS, Bool => |x| compared!(x, >=);
    aclnnLtTensorGetWorkspaceSize, aclnnLtTensor;
        aclnnInplaceLtTensorGetWorkspaceSize, aclnnInplaceLtTensor: ALL, Bool => |x| compared!(x, <);
    aclnnLeTensorGetWorkspaceSize, aclnnLeTensor;
        aclnnInplaceLeTensorGetWorkspaceSize, aclnnInplaceLeTensor: UP_TO_U16, Bool => |x| compared!(x, <=);
}

operator! { elementwise: aclnnInplaceAtan2GetWorkspaceSize, aclnnInplaceAtan2(
    target, rhs
) |operands|
    let inputs = [target.cast_const(), rhs.cast_const()];
    let x = two(operands, inputs, To::Itself, USUAL, Gives::Float)?;
    Ok(by_float!(x.of, T => zip(x, <T as Float>::atan2)))
}
