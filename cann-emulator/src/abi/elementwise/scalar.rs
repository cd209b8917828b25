//! Operators of a tensor and a scalar on its right.

use cann_sys::meta::*;

use super::{FMOD, Gives, WIDE, map, one};
use crate::abi::checks::{BITS, NUMBERS, USUAL};
use crate::abi::operators;
use crate::executor::phase_one;
use crate::number::by_number;
use crate::ops::arithmetic::{Arithmetic, clamp};

macro_rules! of_scalar {
    ($($one:ident, $two:ident: $dtypes:expr, $gives:ident
        => |$tensor:ident, $rhs:ident| $work:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            rhs: *const aclScalar,
            output: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                let $tensor = one(operands, input, output, $dtypes, Gives::$gives)?;
                let $rhs = operands.scalar_for("other", rhs, &$tensor)?;
                Ok($work)
            })
        }
    )*
    operators! { elementwise: $($one, $two;)* }};
}

of_scalar! {
    aclnnMulsGetWorkspaceSize, aclnnMuls: USUAL, Same => |x, s| arithmetic!(x, mul, s);
    aclnnDivsGetWorkspaceSize, aclnnDivs: NUMBERS, Float => |x, s| by_float!(x.dtype, T => {
        let right: T = s.to();
        map(move |left: T| left / right)
    });
    aclnnRemainderTensorScalarGetWorkspaceSize, aclnnRemainderTensorScalar: WIDE, Same
        => |x, s| arithmetic!(x, remainder, s);
    aclnnFmodScalarGetWorkspaceSize, aclnnFmodScalar: FMOD, Same => |x, s| arithmetic!(x, fmod, s);
    aclnnBitwiseAndScalarGetWorkspaceSize, aclnnBitwiseAndScalar: BITS, Same => |_x, s| {
        let right: i64 = s.to();
        map(move |left: i64| left & right)
    };
    aclnnBitwiseOrScalarGetWorkspaceSize, aclnnBitwiseOrScalar: BITS, Same => |_x, s| {
        let right: i64 = s.to();
        map(move |left: i64| left | right)
    };
    aclnnBitwiseXorScalarGetWorkspaceSize, aclnnBitwiseXorScalar: BITS, Same => |_x, s| {
        let right: i64 = s.to();
        map(move |left: i64| left ^ right)
    };
    aclnnEqScalarGetWorkspaceSize, aclnnEqScalar: USUAL, Bool => |x, s| compared!(x, == s);
    aclnnNeScalarGetWorkspaceSize, aclnnNeScalar: USUAL, Bool => |x, s| compared!(x, != s);
    aclnnGtScalarGetWorkspaceSize, aclnnGtScalar: USUAL, Bool => |x, s| compared!(x, > s);
    aclnnGeScalarGetWorkspaceSize, aclnnGeScalar: USUAL, Bool => |x, s| compared!(x, >= s);
    aclnnLtScalarGetWorkspaceSize, aclnnLtScalar: USUAL, Bool => |x, s| compared!(x, < s);
    aclnnLeScalarGetWorkspaceSize, aclnnLeScalar: USUAL, Bool => |x, s| compared!(x, <= s);
    aclnnClampMinGetWorkspaceSize, aclnnClampMin: NUMBERS, Same
        => |x, s| by_number!(x.dtype, T => {
            let low: T = s.to();
            map(move |x: T| clamp(x, Some(low), None))
        });
    aclnnClampMaxGetWorkspaceSize, aclnnClampMax: NUMBERS, Same
        => |x, s| by_number!(x.dtype, T => {
            let high: T = s.to();
            map(move |x: T| clamp(x, None, Some(high)))
        });
}
