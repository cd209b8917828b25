//! Operators of two tensors.

use cann_sys::meta::*;

use super::{FMOD, Gives, WIDE, two, zip};
use crate::abi::checks::{BITS, INTEGERS, NUMBERS, USUAL};
use crate::abi::operators;
use crate::executor::{Work, phase_one};
use crate::number::{Number, by_number};
use crate::ops::arithmetic::{Arithmetic, Float};

/// The dtypes of angles.
const ANGLES: &[aclDataType] = &[ACL_FLOAT, ACL_FLOAT16, ACL_DOUBLE];

macro_rules! of_two {
    ($($one:ident, $two:ident: $dtypes:expr, $gives:ident => |$tensor:ident| $work:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            rhs: *const aclTensor,
            output: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                let $tensor = two(operands, [input, rhs], output, $dtypes, Gives::$gives)?;
                Ok($work)
            })
        }
    )*
    operators! { elementwise: $($one, $two;)* }};
}

/// Returns the work of a function of two booleans. Bytes other than 0 are true.
fn truth(apply: fn(bool, bool) -> bool) -> Work {
    zip(move |left: f64, right: f64| i64::from(apply(left.is_true(), right.is_true())))
}

/// Returns the work of a function of the bits of integers, or of the lowest bit of booleans.
fn bits(apply: fn(i64, i64) -> i64) -> Work {
    zip(apply)
}

of_two! {
    aclnnMulGetWorkspaceSize, aclnnMul: USUAL, Same => |x| arithmetic!(x, mul);
    aclnnDivGetWorkspaceSize, aclnnDiv: NUMBERS, Float
        => |x| by_float!(x.dtype, T => zip(<T as Float>::div));
    aclnnMaximumGetWorkspaceSize, aclnnMaximum: USUAL, Same => |x| arithmetic!(x, maximum);
    aclnnMinimumGetWorkspaceSize, aclnnMinimum: USUAL, Same => |x| arithmetic!(x, minimum);
    aclnnPowTensorTensorGetWorkspaceSize, aclnnPowTensorTensor: NUMBERS, Same
        => |x| arithmetic!(x, power);
    aclnnRemainderTensorTensorGetWorkspaceSize, aclnnRemainderTensorTensor: WIDE, Same
        => |x| arithmetic!(x, remainder);
    aclnnFmodTensorGetWorkspaceSize, aclnnFmodTensor: FMOD, Same => |x| arithmetic!(x, fmod);
    aclnnAtan2GetWorkspaceSize, aclnnAtan2: ANGLES, Same
        => |x| by_float!(x.dtype, T => zip(<T as Float>::atan2));
    aclnnBitwiseAndTensorGetWorkspaceSize, aclnnBitwiseAndTensor: BITS, Same
        => |_x| bits(|left, right| left & right);
    aclnnBitwiseOrTensorGetWorkspaceSize, aclnnBitwiseOrTensor: BITS, Same
        => |_x| bits(|left, right| left | right);
    aclnnBitwiseXorTensorGetWorkspaceSize, aclnnBitwiseXorTensor: BITS, Same
        => |_x| bits(|left, right| left ^ right);
    // A shift beyond the width leaves nothing, or the sign. So does a negative shift, which CANN leaves undefined.
    aclnnLeftShiftGetWorkspaceSize, aclnnLeftShift: INTEGERS, Same
        => |_x| bits(|left, right| if (0..64).contains(&right) { left << right } else { 0 });
    aclnnRightShiftGetWorkspaceSize, aclnnRightShift: INTEGERS, Same
        => |_x| bits(|left, right| left >> if right < 0 { 63 } else { right.min(63) });
    aclnnLogicalAndGetWorkspaceSize, aclnnLogicalAnd: USUAL, Bool => |_x| truth(|a, b| a && b);
    aclnnLogicalOrGetWorkspaceSize, aclnnLogicalOr: USUAL, Bool => |_x| truth(|a, b| a || b);
    aclnnLogicalXorGetWorkspaceSize, aclnnLogicalXor: USUAL, Bool => |_x| truth(|a, b| a != b);
    aclnnEqTensorGetWorkspaceSize, aclnnEqTensor: USUAL, Bool => |x| compared!(x, ==);
    aclnnNeTensorGetWorkspaceSize, aclnnNeTensor: USUAL, Bool => |x| compared!(x, !=);
    aclnnGtTensorGetWorkspaceSize, aclnnGtTensor: USUAL, Bool => |x| compared!(x, >);
    aclnnGeTensorGetWorkspaceSize, aclnnGeTensor: USUAL, Bool => |x| compared!(x, >=);
    aclnnLtTensorGetWorkspaceSize, aclnnLtTensor: USUAL, Bool => |x| compared!(x, <);
    aclnnLeTensorGetWorkspaceSize, aclnnLeTensor: USUAL, Bool => |x| compared!(x, <=);
}
