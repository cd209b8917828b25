//! Operators of one tensor.

use cann_sys::meta::*;

use super::{Gives, WIDE, map, one};
use crate::abi::checks::{BITS, FLOATS, REALS, USUAL};
use crate::abi::operators;
use crate::executor::phase_one;
use crate::number::{Number, by_number};
use crate::ops::arithmetic::{Arithmetic, Float};

/// i8, i32, i64 and floats.
const SIGNED: &[aclDataType] = &[
    ACL_FLOAT,
    ACL_FLOAT16,
    ACL_BF16,
    ACL_DOUBLE,
    ACL_INT64,
    ACL_INT32,
    ACL_INT8,
];
/// The dtypes that have a sign.
const SIGN: &[aclDataType] = &[
    ACL_FLOAT,
    ACL_FLOAT16,
    ACL_BF16,
    ACL_DOUBLE,
    ACL_INT64,
    ACL_INT32,
    ACL_BOOL,
];
/// The dtypes that can be compared with zero.
const RELU: &[aclDataType] = &[
    ACL_FLOAT,
    ACL_FLOAT16,
    ACL_BF16,
    ACL_INT64,
    ACL_INT32,
    ACL_INT8,
    ACL_UINT8,
];

macro_rules! of_one {
    ($module:ident, $constness:tt: $($one:ident, $two:ident: $dtypes:expr, $gives:ident
        => |$tensor:ident| $work:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            output: *$constness aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                let $tensor = one(operands, input, output, $dtypes, Gives::$gives)?;
                Ok($work)
            })
        }
    )*
    operators! { $module: $($one, $two;)* }};
}

macro_rules! function {
    ($tensor:ident, $function:ident) => {
        by_float!($tensor.dtype, T => map(<T as Float>::$function))
    };
}

of_one! { elementwise, mut:
    aclnnNegGetWorkspaceSize, aclnnNeg: SIGNED, Same
        => |x| by_number!(x.dtype, T => map(<T as Arithmetic>::neg));
    aclnnAbsGetWorkspaceSize, aclnnAbs: USUAL, Same
        => |x| by_number!(x.dtype, T => map(<T as Arithmetic>::abs));
    aclnnSignGetWorkspaceSize, aclnnSign: SIGN, Same
        => |x| by_number!(x.dtype, T => map(<T as Arithmetic>::sign));
    aclnnRoundGetWorkspaceSize, aclnnRound: WIDE, Same
        => |x| by_number!(x.dtype, T => map(<T as Arithmetic>::round));
    aclnnIsFiniteGetWorkspaceSize, aclnnIsFinite: USUAL, Bool
        => |x| by_number!(x.dtype, T => map(|x: T| i64::from(Arithmetic::finite(x))));
    aclnnLogicalNotGetWorkspaceSize, aclnnLogicalNot: USUAL, Bool
        => |_x| map(|x: f64| i64::from(!x.is_true()));
    aclnnBitwiseNotGetWorkspaceSize, aclnnBitwiseNot: BITS, Same => |x| {
        let truth = x.dtype == ACL_BOOL;
        map(move |x: i64| if truth { x ^ 1 } else { !x })
    };
    aclnnExpGetWorkspaceSize, aclnnExp: REALS, Same => |x| function!(x, exp);
    aclnnLogGetWorkspaceSize, aclnnLog: REALS, Same => |x| function!(x, ln);
    aclnnLog1pGetWorkspaceSize, aclnnLog1p: FLOATS, Same => |x| function!(x, log1p);
    aclnnExpm1GetWorkspaceSize, aclnnExpm1: FLOATS, Same => |x| function!(x, expm1);
    aclnnSqrtGetWorkspaceSize, aclnnSqrt: REALS, Same => |x| function!(x, sqrt);
    aclnnRsqrtGetWorkspaceSize, aclnnRsqrt: REALS, Same => |x| function!(x, rsqrt);
    aclnnReciprocalGetWorkspaceSize, aclnnReciprocal: REALS, Same => |x| function!(x, reciprocal);
    aclnnSinGetWorkspaceSize, aclnnSin: REALS, Same => |x| function!(x, sin);
    aclnnCosGetWorkspaceSize, aclnnCos: REALS, Same => |x| function!(x, cos);
    aclnnTanGetWorkspaceSize, aclnnTan: REALS, Same => |x| function!(x, tan);
    aclnnSinhGetWorkspaceSize, aclnnSinh: REALS, Same => |x| function!(x, sinh);
    aclnnCoshGetWorkspaceSize, aclnnCosh: REALS, Same => |x| function!(x, cosh);
    aclnnAsinGetWorkspaceSize, aclnnAsin: REALS, Same => |x| function!(x, asin);
    aclnnAcosGetWorkspaceSize, aclnnAcos: REALS, Same => |x| function!(x, acos);
    aclnnAtanGetWorkspaceSize, aclnnAtan: REALS, Same => |x| function!(x, atan);
    aclnnAsinhGetWorkspaceSize, aclnnAsinh: REALS, Same => |x| function!(x, asinh);
    aclnnAcoshGetWorkspaceSize, aclnnAcosh: REALS, Same => |x| function!(x, acosh);
    aclnnAtanhGetWorkspaceSize, aclnnAtanh: REALS, Same => |x| function!(x, atanh);
    aclnnErfGetWorkspaceSize, aclnnErf: REALS, Same => |x| function!(x, erf);
    aclnnFloorGetWorkspaceSize, aclnnFloor: REALS, Same => |x| function!(x, floor);
    aclnnCeilGetWorkspaceSize, aclnnCeil: REALS, Same => |x| function!(x, ceil);
    aclnnTruncGetWorkspaceSize, aclnnTrunc: FLOATS, Same => |x| function!(x, trunc);
}

of_one! { activation, mut:
    aclnnTanhGetWorkspaceSize, aclnnTanh: REALS, Same => |x| function!(x, tanh);
    aclnnSigmoidGetWorkspaceSize, aclnnSigmoid: REALS, Same => |x| function!(x, sigmoid);
    aclnnSiluGetWorkspaceSize, aclnnSilu: FLOATS, Same => |x| function!(x, silu);
    // CANN's first Gelu is the approximation.
    aclnnGeluGetWorkspaceSize, aclnnGelu: FLOATS, Same => |x| function!(x, gelu_tanh);
}

of_one! { activation, const:
    aclnnReluGetWorkspaceSize, aclnnRelu: RELU, Same
        => |x| by_number!(x.dtype, T => map(<T as Arithmetic>::relu));
}
