//! Operators of one tensor.

use cann_sys::meta::*;

use super::{COUNTS, Gives, To, WIDE, map, one};
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

/// The floats, i64 and bool.
const POWERS: &[aclDataType] = &[
    ACL_FLOAT,
    ACL_FLOAT16,
    ACL_BF16,
    ACL_DOUBLE,
    ACL_INT64,
    ACL_BOOL,
];
/// [`POWERS`] without f64.
const NARROW_POWERS: &[aclDataType] = &[ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT64, ACL_BOOL];
/// The usual dtypes without f64.
const TANH: &[aclDataType] = &[
    ACL_FLOAT,
    ACL_FLOAT16,
    ACL_BF16,
    ACL_INT64,
    ACL_INT32,
    ACL_INT16,
    ACL_INT8,
    ACL_UINT8,
    ACL_BOOL,
];

/// Defines operators of a tensor, and their forms in place.
macro_rules! of_one {
    ($module:ident, $constness:tt: $(
        $one:ident, $two:ident $(; $target:ident $place_one:ident, $place_two:ident)?:
        $dtypes:expr, $gives:ident => |$x:ident| $work:expr;
    )*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            output: *$constness aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                let to = To::Output(output);
                let $x = one(operands, input, to, $dtypes, Gives::$gives)?;
                Ok($work)
            })
        }

        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $place_one(
                target: *$target aclTensor,
                workspace_size: *mut u64,
                executor: *mut *mut aclOpExecutor,
            ) -> aclnnStatus {
                phase_one(stringify!($place_two), workspace_size, executor, |operands| {
                    let $x = one(operands, target, To::Itself, $dtypes, Gives::$gives)?;
                    Ok($work)
                })
            }
        )?
    )*
    operators! { $module: $($one, $two; $($place_one, $place_two;)?)* }};
}

macro_rules! function {
    ($x:ident, $function:ident) => {
        by_float!($x.of, T => map($x, <T as Float>::$function))
    };
}

of_one! { elementwise, mut:
    aclnnNegGetWorkspaceSize, aclnnNeg; mut aclnnInplaceNegGetWorkspaceSize, aclnnInplaceNeg:
        SIGNED, Equal => |x| by_number!(x.of, T => map(x, <T as Arithmetic>::neg));
    aclnnAbsGetWorkspaceSize, aclnnAbs: USUAL, Equal
        => |x| by_number!(x.of, T => map(x, <T as Arithmetic>::abs));
    aclnnSignGetWorkspaceSize, aclnnSign: SIGN, Equal
        => |x| by_number!(x.of, T => map(x, <T as Arithmetic>::sign));
    aclnnRoundGetWorkspaceSize, aclnnRound; const aclnnInplaceRoundGetWorkspaceSize, aclnnInplaceRound:
        WIDE, Equal => |x| by_number!(x.of, T => map(x, <T as Arithmetic>::round));
    aclnnFloorGetWorkspaceSize, aclnnFloor; mut aclnnInplaceFloorGetWorkspaceSize, aclnnInplaceFloor:
        COUNTS, Equal => |x| by_number!(x.of, T => map(x, <T as Arithmetic>::floor));
    aclnnIsFiniteGetWorkspaceSize, aclnnIsFinite: USUAL, Bool
        => |x| by_number!(x.of, T => map(x, |x: T| i64::from(Arithmetic::finite(x))));
    aclnnLogicalNotGetWorkspaceSize, aclnnLogicalNot; mut aclnnInplaceLogicalNotGetWorkspaceSize, aclnnInplaceLogicalNot:
        USUAL, Bool => |x| map(x, |x: f64| i64::from(!x.is_true()));
    aclnnBitwiseNotGetWorkspaceSize, aclnnBitwiseNot: BITS, Equal => |x| {
        let truth = x.of == ACL_BOOL;
        map(x, move |x: i64| if truth { x ^ 1 } else { !x })
    };
    aclnnExpGetWorkspaceSize, aclnnExp; mut aclnnInplaceExpGetWorkspaceSize, aclnnInplaceExp:
        POWERS, Float => |x| function!(x, exp);
    aclnnExpm1GetWorkspaceSize, aclnnExpm1; mut aclnnInplaceExpm1GetWorkspaceSize, aclnnInplaceExpm1:
        NARROW_POWERS, Float => |x| function!(x, expm1);
    aclnnErfGetWorkspaceSize, aclnnErf; mut aclnnInplaceErfGetWorkspaceSize, aclnnInplaceErf:
        POWERS, Float => |x| function!(x, erf);
    aclnnLogGetWorkspaceSize, aclnnLog; mut aclnnInplaceLogGetWorkspaceSize, aclnnInplaceLog:
        USUAL, Real => |x| function!(x, ln);
    aclnnLog1pGetWorkspaceSize, aclnnLog1p; mut aclnnInplaceLog1pGetWorkspaceSize, aclnnInplaceLog1p:
        USUAL, RealOut => |x| function!(x, log1p);
    aclnnExp2GetWorkspaceSize, aclnnExp2; mut aclnnInplaceExp2GetWorkspaceSize, aclnnInplaceExp2:
        USUAL, Real => |x| function!(x, exp2);
    aclnnSqrtGetWorkspaceSize, aclnnSqrt; mut aclnnInplaceSqrtGetWorkspaceSize, aclnnInplaceSqrt:
        USUAL, Root => |x| function!(x, sqrt);
    aclnnRsqrtGetWorkspaceSize, aclnnRsqrt; mut aclnnInplaceRsqrtGetWorkspaceSize, aclnnInplaceRsqrt:
        USUAL, RealOut => |x| function!(x, rsqrt);
    aclnnReciprocalGetWorkspaceSize, aclnnReciprocal; const aclnnInplaceReciprocalGetWorkspaceSize, aclnnInplaceReciprocal:
        USUAL, Real => |x| function!(x, reciprocal);
    aclnnSinGetWorkspaceSize, aclnnSin; mut aclnnInplaceSinGetWorkspaceSize, aclnnInplaceSin:
        USUAL, Real => |x| function!(x, sin);
    aclnnCosGetWorkspaceSize, aclnnCos; mut aclnnInplaceCosGetWorkspaceSize, aclnnInplaceCos:
        USUAL, Real => |x| function!(x, cos);
    aclnnTanGetWorkspaceSize, aclnnTan; const aclnnInplaceTanGetWorkspaceSize, aclnnInplaceTan:
        USUAL, Real => |x| function!(x, tan);
    aclnnSinhGetWorkspaceSize, aclnnSinh; mut aclnnInplaceSinhGetWorkspaceSize, aclnnInplaceSinh:
        USUAL, Real => |x| function!(x, sinh);
    aclnnCoshGetWorkspaceSize, aclnnCosh; mut aclnnInplaceCoshGetWorkspaceSize, aclnnInplaceCosh:
        USUAL, Real => |x| function!(x, cosh);
    aclnnAsinGetWorkspaceSize, aclnnAsin; mut aclnnInplaceAsinGetWorkspaceSize, aclnnInplaceAsin:
        USUAL, Real => |x| function!(x, asin);
    aclnnAcosGetWorkspaceSize, aclnnAcos; mut aclnnInplaceAcosGetWorkspaceSize, aclnnInplaceAcos:
        USUAL, Real => |x| function!(x, acos);
    aclnnAtanGetWorkspaceSize, aclnnAtan; mut aclnnInplaceAtanGetWorkspaceSize, aclnnInplaceAtan:
        USUAL, Real => |x| function!(x, atan);
    aclnnAsinhGetWorkspaceSize, aclnnAsinh; mut aclnnInplaceAsinhGetWorkspaceSize, aclnnInplaceAsinh:
        USUAL, Real => |x| function!(x, asinh);
    aclnnAcoshGetWorkspaceSize, aclnnAcosh; mut aclnnInplaceAcoshGetWorkspaceSize, aclnnInplaceAcosh:
        USUAL, Real => |x| function!(x, acosh);
    aclnnAtanhGetWorkspaceSize, aclnnAtanh; mut aclnnInplaceAtanhGetWorkspaceSize, aclnnInplaceAtanh:
        USUAL, Real => |x| function!(x, atanh);
    aclnnCeilGetWorkspaceSize, aclnnCeil; mut aclnnInplaceCeilGetWorkspaceSize, aclnnInplaceCeil:
        REALS, Equal => |x| function!(x, ceil);
    aclnnTruncGetWorkspaceSize, aclnnTrunc; mut aclnnInplaceTruncGetWorkspaceSize, aclnnInplaceTrunc:
        FLOATS, Equal => |x| function!(x, trunc);
}

of_one! { activation, mut:
    aclnnTanhGetWorkspaceSize, aclnnTanh; mut aclnnInplaceTanhGetWorkspaceSize, aclnnInplaceTanh:
        TANH, Single => |x| function!(x, tanh);
    aclnnSigmoidGetWorkspaceSize, aclnnSigmoid; mut aclnnInplaceSigmoidGetWorkspaceSize, aclnnInplaceSigmoid:
        USUAL, RealOut => |x| function!(x, sigmoid);
    aclnnSiluGetWorkspaceSize, aclnnSilu: FLOATS, Equal => |x| function!(x, silu);
    // CANN's first Gelu is the approximation.
    aclnnGeluGetWorkspaceSize, aclnnGelu: FLOATS, Equal => |x| function!(x, gelu_tanh);
}

of_one! { activation, mut:
    aclnnMishGetWorkspaceSize, aclnnMish; mut aclnnInplaceMishGetWorkspaceSize, aclnnInplaceMish:
        FLOATS, Equal => |x| map(x, |x: f32| x * x.exp().ln_1p().tanh());
}

of_one! { activation, const:
    aclnnHardswishGetWorkspaceSize, aclnnHardswish;
        const aclnnInplaceHardswishGetWorkspaceSize, aclnnInplaceHardswish:
        FLOATS, Equal => |x| map(x, |x: f32| x * (x + 3.0).clamp(0.0, 6.0) / 6.0);
    aclnnReluGetWorkspaceSize, aclnnRelu; mut aclnnInplaceReluGetWorkspaceSize, aclnnInplaceRelu:
        RELU, Equal => |x| by_number!(x.of, T => map(x, <T as Arithmetic>::relu));
}

of_one! { elementwise, const:
    aclnnLog2GetWorkspaceSize, aclnnLog2; const aclnnInplaceLog2GetWorkspaceSize, aclnnInplaceLog2:
        USUAL, Real => |x| function!(x, log2);
    aclnnLog10GetWorkspaceSize, aclnnLog10; const aclnnInplaceLog10GetWorkspaceSize, aclnnInplaceLog10:
        USUAL, Real => |x| function!(x, log10);
}
