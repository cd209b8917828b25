//! Operators of one tensor.

use super::{COUNTS, Gives, WIDE, map, one};
use crate::abi::prelude::*;
use crate::ops::arithmetic::{Arithmetic, Float};

/// i8, i32, i64 and floats.
const SIGNED: &[aclDataType] = &[F32, F16, BF16, F64, I64, I32, I8];
/// The dtypes that have a sign.
const SIGN: &[aclDataType] = &[F32, F16, BF16, F64, I64, I32, BOOL];
/// The dtypes that can be compared with zero.
const RELU: &[aclDataType] = &[F32, F16, BF16, I64, I32, I8, U8];

/// The floats, i64 and bool.
const POWERS: &[aclDataType] = &[F32, F16, BF16, F64, I64, BOOL];
/// [`POWERS`] without f64.
const NARROW_POWERS: &[aclDataType] = &[ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT64, ACL_BOOL];
/// The usual dtypes without f64.
const TANH: &[aclDataType] = &[F32, F16, BF16, I64, I32, I16, I8, U8, BOOL];

/// Defines operators of a tensor, and their forms in place.
macro_rules! of_one {
    ($area:ident: $(
        $one:ident, $two:ident $(; $place_one:ident, $place_two:ident)?:
        $dtypes:expr, $gives:ident => |$x:ident| $work:expr;
    )*) => {$(
        with_place! { $area: $one, $two $(; $place_one, $place_two)? (input) |operands, to|
            let $x = one(operands, input, to, $dtypes, Gives::$gives)?;
            Ok($work)
        }
    )*};
}

macro_rules! function {
    ($x:ident, $function:ident) => {
        by_float!($x.of, T => map($x, <T as Float>::$function))
    };
}

of_one! { elementwise:
    aclnnNegGetWorkspaceSize, aclnnNeg; aclnnInplaceNegGetWorkspaceSize, aclnnInplaceNeg:
        SIGNED, Equal => |x| by_number!(x.of, T => map(x, <T as Arithmetic>::neg));
    aclnnAbsGetWorkspaceSize, aclnnAbs: USUAL, Equal
        => |x| by_number!(x.of, T => map(x, <T as Arithmetic>::abs));
    aclnnSignGetWorkspaceSize, aclnnSign: SIGN, Equal
        => |x| by_number!(x.of, T => map(x, <T as Arithmetic>::sign));
    aclnnRoundGetWorkspaceSize, aclnnRound; aclnnInplaceRoundGetWorkspaceSize, aclnnInplaceRound:
        WIDE, Equal => |x| by_number!(x.of, T => map(x, <T as Arithmetic>::round));
    aclnnFloorGetWorkspaceSize, aclnnFloor; aclnnInplaceFloorGetWorkspaceSize, aclnnInplaceFloor:
        COUNTS, Equal => |x| by_number!(x.of, T => map(x, <T as Arithmetic>::floor));
    aclnnIsFiniteGetWorkspaceSize, aclnnIsFinite: USUAL, Bool
        => |x| by_number!(x.of, T => map(x, |x: T| i64::from(Arithmetic::finite(x))));
    aclnnLogicalNotGetWorkspaceSize, aclnnLogicalNot; aclnnInplaceLogicalNotGetWorkspaceSize, aclnnInplaceLogicalNot:
        USUAL, Bool => |x| map(x, |x: f64| i64::from(!x.is_true()));
    aclnnBitwiseNotGetWorkspaceSize, aclnnBitwiseNot: BITS, Equal => |x| {
        let truth = x.of == ACL_BOOL;
        map(x, move |x: i64| if truth { x ^ 1 } else { !x })
    };
    aclnnExpGetWorkspaceSize, aclnnExp; aclnnInplaceExpGetWorkspaceSize, aclnnInplaceExp:
        POWERS, Float => |x| function!(x, exp);
    aclnnExpm1GetWorkspaceSize, aclnnExpm1; aclnnInplaceExpm1GetWorkspaceSize, aclnnInplaceExpm1:
        NARROW_POWERS, Float => |x| function!(x, expm1);
    aclnnErfGetWorkspaceSize, aclnnErf; aclnnInplaceErfGetWorkspaceSize, aclnnInplaceErf:
        POWERS, Float => |x| function!(x, erf);
    aclnnLogGetWorkspaceSize, aclnnLog; aclnnInplaceLogGetWorkspaceSize, aclnnInplaceLog:
        USUAL, Real => |x| function!(x, ln);
    aclnnLog1pGetWorkspaceSize, aclnnLog1p; aclnnInplaceLog1pGetWorkspaceSize, aclnnInplaceLog1p:
        USUAL, RealOut => |x| function!(x, log1p);
    aclnnExp2GetWorkspaceSize, aclnnExp2; aclnnInplaceExp2GetWorkspaceSize, aclnnInplaceExp2:
        USUAL, Real => |x| function!(x, exp2);
    aclnnSqrtGetWorkspaceSize, aclnnSqrt; aclnnInplaceSqrtGetWorkspaceSize, aclnnInplaceSqrt:
        USUAL, Root => |x| function!(x, sqrt);
    aclnnRsqrtGetWorkspaceSize, aclnnRsqrt; aclnnInplaceRsqrtGetWorkspaceSize, aclnnInplaceRsqrt:
        USUAL, RealOut => |x| function!(x, rsqrt);
    aclnnReciprocalGetWorkspaceSize, aclnnReciprocal; aclnnInplaceReciprocalGetWorkspaceSize, aclnnInplaceReciprocal:
        USUAL, Real => |x| function!(x, reciprocal);
    aclnnSinGetWorkspaceSize, aclnnSin; aclnnInplaceSinGetWorkspaceSize, aclnnInplaceSin:
        USUAL, Real => |x| function!(x, sin);
    aclnnCosGetWorkspaceSize, aclnnCos; aclnnInplaceCosGetWorkspaceSize, aclnnInplaceCos:
        USUAL, Real => |x| function!(x, cos);
    aclnnTanGetWorkspaceSize, aclnnTan; aclnnInplaceTanGetWorkspaceSize, aclnnInplaceTan:
        USUAL, Real => |x| function!(x, tan);
    aclnnSinhGetWorkspaceSize, aclnnSinh; aclnnInplaceSinhGetWorkspaceSize, aclnnInplaceSinh:
        USUAL, Real => |x| function!(x, sinh);
    aclnnCoshGetWorkspaceSize, aclnnCosh; aclnnInplaceCoshGetWorkspaceSize, aclnnInplaceCosh:
        USUAL, Real => |x| function!(x, cosh);
    aclnnAsinGetWorkspaceSize, aclnnAsin; aclnnInplaceAsinGetWorkspaceSize, aclnnInplaceAsin:
        USUAL, Real => |x| function!(x, asin);
    aclnnAcosGetWorkspaceSize, aclnnAcos; aclnnInplaceAcosGetWorkspaceSize, aclnnInplaceAcos:
        USUAL, Real => |x| function!(x, acos);
    aclnnAtanGetWorkspaceSize, aclnnAtan; aclnnInplaceAtanGetWorkspaceSize, aclnnInplaceAtan:
        USUAL, Real => |x| function!(x, atan);
    aclnnAsinhGetWorkspaceSize, aclnnAsinh; aclnnInplaceAsinhGetWorkspaceSize, aclnnInplaceAsinh:
        USUAL, Real => |x| function!(x, asinh);
    aclnnAcoshGetWorkspaceSize, aclnnAcosh; aclnnInplaceAcoshGetWorkspaceSize, aclnnInplaceAcosh:
        USUAL, Real => |x| function!(x, acosh);
    aclnnAtanhGetWorkspaceSize, aclnnAtanh; aclnnInplaceAtanhGetWorkspaceSize, aclnnInplaceAtanh:
        USUAL, Real => |x| function!(x, atanh);
    aclnnCeilGetWorkspaceSize, aclnnCeil; aclnnInplaceCeilGetWorkspaceSize, aclnnInplaceCeil:
        REALS, Equal => |x| function!(x, ceil);
    aclnnTruncGetWorkspaceSize, aclnnTrunc; aclnnInplaceTruncGetWorkspaceSize, aclnnInplaceTrunc:
        FLOATS, Equal => |x| function!(x, trunc);
    aclnnLog2GetWorkspaceSize, aclnnLog2; aclnnInplaceLog2GetWorkspaceSize, aclnnInplaceLog2:
        USUAL, Real => |x| function!(x, log2);
    aclnnLog10GetWorkspaceSize, aclnnLog10; aclnnInplaceLog10GetWorkspaceSize, aclnnInplaceLog10:
        USUAL, Real => |x| function!(x, log10);
}

of_one! { activation:
    aclnnTanhGetWorkspaceSize, aclnnTanh; aclnnInplaceTanhGetWorkspaceSize, aclnnInplaceTanh:
        TANH, Single => |x| function!(x, tanh);
    aclnnSigmoidGetWorkspaceSize, aclnnSigmoid; aclnnInplaceSigmoidGetWorkspaceSize, aclnnInplaceSigmoid:
        USUAL, RealOut => |x| function!(x, sigmoid);
    aclnnSiluGetWorkspaceSize, aclnnSilu: FLOATS, Equal => |x| function!(x, silu);
    // CANN's first Gelu is the approximation.
    aclnnGeluGetWorkspaceSize, aclnnGelu: FLOATS, Equal => |x| function!(x, gelu_tanh);
    aclnnMishGetWorkspaceSize, aclnnMish; aclnnInplaceMishGetWorkspaceSize, aclnnInplaceMish:
        FLOATS, Equal => |x| map(x, |x: f32| x * x.exp().ln_1p().tanh());
    aclnnHardswishGetWorkspaceSize, aclnnHardswish;
        aclnnInplaceHardswishGetWorkspaceSize, aclnnInplaceHardswish:
        FLOATS, Equal => |x| map(x, |x: f32| x * (x + 3.0).clamp(0.0, 6.0) / 6.0);
    aclnnReluGetWorkspaceSize, aclnnRelu; aclnnInplaceReluGetWorkspaceSize, aclnnInplaceRelu:
        RELU, Equal => |x| by_number!(x.of, T => map(x, <T as Arithmetic>::relu));
}
