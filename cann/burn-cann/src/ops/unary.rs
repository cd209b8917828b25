//! Functions of single elements, and the gradient of SiLU.

use super::Checked;
use super::aclnn::aclnn;
use super::check;
use super::table::family;
use super::types::{BITS, FLOATS, REALS, USUAL};
use crate::DType::{self, BF16, Bool, F16, F32, F64, I8, I32, I64, U8};
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// The dtypes that can be negated.
const SIGNED: &[DType] = &[F32, F16, BF16, F64, I64, I32, I8];
/// The dtypes that have a sign.
const SIGN: &[DType] = &[F32, F16, BF16, F64, I64, I32, Bool];
/// The dtypes that can be rounded to the nearest whole number.
const WIDE: &[DType] = &[F32, F16, BF16, F64, I64, I32];
/// The dtypes that can be compared with zero.
const RELU: &[DType] = &[F32, F16, BF16, I64, I32, I8, U8];

family! {
    /// Functions of single elements.
    Unary of one;
    /// `−x`.
    Neg neg(x => y), elementwise.aclnnNegGetWorkspaceSize, aclnnNeg: SIGNED, Same,
        [] [] (x, y);

    /// `|x|`.
    Abs abs(x => y), elementwise.aclnnAbsGetWorkspaceSize, aclnnAbs: USUAL, Same,
        [] [] (x, y);

    /// The sign: -1, 0 or 1.
    Sign sign(x => y), elementwise.aclnnSignGetWorkspaceSize, aclnnSign: SIGN, Same,
        [] [] (x, y);

    /// The nearest whole number; the even one of two.
    Round round(x => y), elementwise.aclnnRoundGetWorkspaceSize, aclnnRound: WIDE, Same,
        [] [] (x, y);

    /// The nearest whole number that is not greater.
    Floor floor(x => y), elementwise.aclnnFloorGetWorkspaceSize, aclnnFloor: REALS, Same,
        [] [] (x, y);

    /// The nearest whole number that is not less.
    Ceil ceil(x => y), elementwise.aclnnCeilGetWorkspaceSize, aclnnCeil: REALS, Same,
        [] [] (x, y);

    /// The number rounded towards zero.
    Trunc trunc(x => y), elementwise.aclnnTruncGetWorkspaceSize, aclnnTrunc: FLOATS, Same,
        [] [] (x, y);

    /// `true` if the element is neither infinite nor NaN.
    IsFinite is_finite(x => y), elementwise.aclnnIsFiniteGetWorkspaceSize, aclnnIsFinite: USUAL, Bool,
        [] [] (x, y);

    /// `true` if the element is zero.
    Not logical_not(x => y), elementwise.aclnnLogicalNotGetWorkspaceSize, aclnnLogicalNot: USUAL, Bool,
        [] [] (x, y);

    /// All bits inverted; for booleans, logical not.
    BitNot bitwise_not(x => y), elementwise.aclnnBitwiseNotGetWorkspaceSize, aclnnBitwiseNot: BITS, Same,
        [] [] (x, y);

    /// `exp(x)`.
    Exp exp(x => y), elementwise.aclnnExpGetWorkspaceSize, aclnnExp: REALS, Same,
        [] [] (x, y);

    /// The natural logarithm.
    Log log(x => y), elementwise.aclnnLogGetWorkspaceSize, aclnnLog: REALS, Same,
        [] [] (x, y);

    /// The natural logarithm of `1 + x`.
    Log1p log1p(x => y), elementwise.aclnnLog1pGetWorkspaceSize, aclnnLog1p: FLOATS, Same,
        [] [] (x, y);

    /// `exp(x) − 1`.
    Expm1 expm1(x => y), elementwise.aclnnExpm1GetWorkspaceSize, aclnnExpm1: FLOATS, Same,
        [] [] (x, y);

    /// The square root.
    Sqrt sqrt(x => y), elementwise.aclnnSqrtGetWorkspaceSize, aclnnSqrt: REALS, Same,
        [] [] (x, y);

    /// `1 / √x`.
    Rsqrt rsqrt(x => y), elementwise.aclnnRsqrtGetWorkspaceSize, aclnnRsqrt: REALS, Same,
        [] [] (x, y);

    /// `1 / x`.
    Reciprocal reciprocal(x => y), elementwise.aclnnReciprocalGetWorkspaceSize, aclnnReciprocal: REALS, Same,
        [] [] (x, y);

    /// The sine.
    Sin sin(x => y), elementwise.aclnnSinGetWorkspaceSize, aclnnSin: REALS, Same,
        [] [] (x, y);

    /// The cosine.
    Cos cos(x => y), elementwise.aclnnCosGetWorkspaceSize, aclnnCos: REALS, Same,
        [] [] (x, y);

    /// The tangent.
    Tan tan(x => y), elementwise.aclnnTanGetWorkspaceSize, aclnnTan: REALS, Same,
        [] [] (x, y);

    /// The hyperbolic sine.
    Sinh sinh(x => y), elementwise.aclnnSinhGetWorkspaceSize, aclnnSinh: REALS, Same,
        [] [] (x, y);

    /// The hyperbolic cosine.
    Cosh cosh(x => y), elementwise.aclnnCoshGetWorkspaceSize, aclnnCosh: REALS, Same,
        [] [] (x, y);

    /// The inverse of [`sin`].
    Asin asin(x => y), elementwise.aclnnAsinGetWorkspaceSize, aclnnAsin: REALS, Same,
        [] [] (x, y);

    /// The inverse of [`cos`].
    Acos acos(x => y), elementwise.aclnnAcosGetWorkspaceSize, aclnnAcos: REALS, Same,
        [] [] (x, y);

    /// The inverse of [`tan`].
    Atan atan(x => y), elementwise.aclnnAtanGetWorkspaceSize, aclnnAtan: REALS, Same,
        [] [] (x, y);

    /// The inverse of [`sinh`].
    Asinh asinh(x => y), elementwise.aclnnAsinhGetWorkspaceSize, aclnnAsinh: REALS, Same,
        [] [] (x, y);

    /// The inverse of [`cosh`].
    Acosh acosh(x => y), elementwise.aclnnAcoshGetWorkspaceSize, aclnnAcosh: REALS, Same,
        [] [] (x, y);

    /// The inverse of [`tanh`].
    Atanh atanh(x => y), elementwise.aclnnAtanhGetWorkspaceSize, aclnnAtanh: REALS, Same,
        [] [] (x, y);

    /// The error function.
    Erf erf(x => y), elementwise.aclnnErfGetWorkspaceSize, aclnnErf: REALS, Same,
        [] [] (x, y);

    /// The hyperbolic tangent. CANN has none in f64.
    Tanh tanh(x => y), activation.aclnnTanhGetWorkspaceSize, aclnnTanh: FLOATS, Same,
        [] [] (x, y);

    /// `1 / (1 + exp(−x))`.
    Sigmoid sigmoid(x => y), activation.aclnnSigmoidGetWorkspaceSize, aclnnSigmoid: REALS, Same,
        [] [] (x, y);

    /// `x` where it is positive, else 0.
    Relu relu(x => y), activation.aclnnReluGetWorkspaceSize, aclnnRelu: RELU, Same,
        [] [] (x, y);

    /// `x · sigmoid(x)`.
    Silu silu(x => y), activation.aclnnSiluGetWorkspaceSize, aclnnSilu: FLOATS, Same,
        [] [] (x, y);

    /// `x · Φ(x)`, computed with the error function.
    Gelu gelu(x => y), activation.aclnnGeluV2GetWorkspaceSize, aclnnGeluV2: FLOATS, Same,
        [] [0i64] (x, 0, y);

    /// The approximation of [`gelu`] with tanh.
    GeluTanh gelu_tanh(x => y), activation.aclnnGeluV2GetWorkspaceSize, aclnnGeluV2: FLOATS, Same,
        [] [1i64] (x, 1, y);
}

/// Checks the operands of [`silu_backward`], two tensors with the same shape and dtype (f32, f16 or bf16), and returns
/// the spec of its result.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_silu_backward(platform: &Platform, dy: &Spec, x: &Spec) -> Checked<Spec> {
    check::processor(platform, "SiluBackward")?;
    check::view(("x", x), FLOATS)?;
    check::view(("dy", dy), &[x.dtype])?;
    check::shape(("dy", dy), x.shape())?;
    Ok(Spec::contiguous(x.dtype, x.shape())?)
}

/// Returns the gradient of [`silu`] for `x`, from `dy`.
///
/// # Errors
///
/// Returns an error if [`check_silu_backward`] refuses the operands or a call fails.
pub fn silu_backward(stream: &Stream, dy: &Tensor, x: &Tensor) -> Result<Tensor> {
    let spec = check_silu_backward(stream.device().platform(), dy.spec(), x.spec())?;
    let out = Tensor::like(stream, &spec)?;
    if spec.is_empty() {
        return Ok(out);
    }
    let dx = &out;
    aclnn!(
        stream, activation.aclnnSiluBackwardGetWorkspaceSize, aclnnSiluBackward,
        tensors [dy, x, dx], constants [], attributes [],
        call(dy, x, dx), out.clone(),
    )
}
