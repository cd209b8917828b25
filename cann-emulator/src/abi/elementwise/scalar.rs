//! Operators of a tensor and a scalar on its right.

use cann_sys::meta::*;

use super::{FMOD, Gives, To, UP_TO_U16, WIDE, map, with_scalar};
use crate::abi::checks::{ALL, BITS, NUMBERS, USUAL};
use crate::abi::operators;
use crate::executor::phase_one;
use crate::number::{Number, by_number};
use crate::ops::arithmetic::{Arithmetic, clamp};

/// Defines operators of a tensor and a scalar, and their forms in place.
macro_rules! of_scalar {
    ($(
        $one:ident, $two:ident $(; $target:ident $place_one:ident, $place_two:ident)?:
        $dtypes:expr, $gives:ident => |$x:ident, $rhs:ident| $work:expr;
    )*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            rhs: *const aclScalar,
            output: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                let to = To::Output(output);
                let ($x, $rhs) =
                    with_scalar(operands, (input, rhs), to, $dtypes, Gives::$gives)?;
                Ok($work)
            })
        }

        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $place_one(
                target: *$target aclTensor,
                rhs: *const aclScalar,
                workspace_size: *mut u64,
                executor: *mut *mut aclOpExecutor,
            ) -> aclnnStatus {
                phase_one(stringify!($place_two), workspace_size, executor, |operands| {
                    let inputs = (target as *const aclTensor, rhs);
                    let ($x, $rhs) =
                        with_scalar(operands, inputs, To::Itself, $dtypes, Gives::$gives)?;
                    Ok($work)
                })
            }
        )?
    )*
    operators! { elementwise: $($one, $two; $($place_one, $place_two;)?)* }};
}

of_scalar! {
    aclnnMulsGetWorkspaceSize, aclnnMuls; mut aclnnInplaceMulsGetWorkspaceSize, aclnnInplaceMuls:
        USUAL, Same => |x, s| arithmetic!(x, mul, s);
    aclnnDivsGetWorkspaceSize, aclnnDivs; mut aclnnInplaceDivsGetWorkspaceSize, aclnnInplaceDivs:
        USUAL, Quotient => |x, s| by_float!(x.of, T => {
        let right: T = s.to();
        map(x, move |left: T| left / right)
    });
    aclnnRemainderTensorScalarGetWorkspaceSize, aclnnRemainderTensorScalar;
        mut aclnnInplaceRemainderTensorScalarGetWorkspaceSize, aclnnInplaceRemainderTensorScalar: WIDE, Same
        => |x, s| arithmetic!(x, remainder, s);
    aclnnFmodScalarGetWorkspaceSize, aclnnFmodScalar;
        mut aclnnInplaceFmodScalarGetWorkspaceSize, aclnnInplaceFmodScalar: FMOD, Same => |x, s| arithmetic!(x, fmod, s);
    aclnnBitwiseAndScalarGetWorkspaceSize, aclnnBitwiseAndScalar;
        const aclnnInplaceBitwiseAndScalarGetWorkspaceSize, aclnnInplaceBitwiseAndScalar: BITS, Same => |x, s| {
        let right: i64 = s.to();
        map(x, move |left: i64| left & right)
    };
    aclnnBitwiseOrScalarGetWorkspaceSize, aclnnBitwiseOrScalar;
        mut aclnnInplaceBitwiseOrScalarGetWorkspaceSize, aclnnInplaceBitwiseOrScalar: BITS, Same => |x, s| {
        let right: i64 = s.to();
        map(x, move |left: i64| left | right)
    };
    aclnnBitwiseXorScalarGetWorkspaceSize, aclnnBitwiseXorScalar;
        mut aclnnInplaceBitwiseXorScalarGetWorkspaceSize, aclnnInplaceBitwiseXorScalar: BITS, Same => |x, s| {
        let right: i64 = s.to();
        map(x, move |left: i64| left ^ right)
    };
    aclnnEqScalarGetWorkspaceSize, aclnnEqScalar;
        const aclnnInplaceEqScalarGetWorkspaceSize, aclnnInplaceEqScalar: USUAL, Bool => |x, s| compared!(x, == s);
    aclnnNeScalarGetWorkspaceSize, aclnnNeScalar;
        mut aclnnInplaceNeScalarGetWorkspaceSize, aclnnInplaceNeScalar: USUAL, Bool => |x, s| compared!(x, != s);
    aclnnGtScalarGetWorkspaceSize, aclnnGtScalar;
        mut aclnnInplaceGtScalarGetWorkspaceSize, aclnnInplaceGtScalar: ALL, Bool => |x, s| compared!(x, > s);
    aclnnGeScalarGetWorkspaceSize, aclnnGeScalar;
        mut aclnnInplaceGeScalarGetWorkspaceSize, aclnnInplaceGeScalar: ALL, Bool => |x, s| compared!(x, >= s);
    aclnnLtScalarGetWorkspaceSize, aclnnLtScalar;
        const aclnnInplaceLtScalarGetWorkspaceSize, aclnnInplaceLtScalar: ALL, Bool => |x, s| compared!(x, < s);
    aclnnLeScalarGetWorkspaceSize, aclnnLeScalar;
        mut aclnnInplaceLeScalarGetWorkspaceSize, aclnnInplaceLeScalar: UP_TO_U16, Bool => |x, s| compared!(x, <= s);
    aclnnClampMinGetWorkspaceSize, aclnnClampMin: NUMBERS, Same
        => |x, s| by_number!(x.of, T => {
            let low: T = s.to();
            map(x, move |x: T| clamp(x, Some(low), None))
        });
    aclnnClampMaxGetWorkspaceSize, aclnnClampMax; const aclnnInplaceClampMaxGetWorkspaceSize, aclnnInplaceClampMax:
        NUMBERS, Same
        => |x, s| by_number!(x.of, T => {
            let high: T = s.to();
            map(x, move |x: T| clamp(x, None, Some(high)))
        });
}
