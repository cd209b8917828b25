//! Elementwise arithmetic, bit operations and logic, of two tensors or of a tensor and a scalar.

use super::Checked;
use super::aclnn::aclnn;
use super::check;
use super::table::family;
use super::types::{BITS, INTEGERS, NUMBERS, USUAL};
use crate::DType::{self, BF16, F16, F32, F64, I8, I32, I64, U8};
use crate::call::{Constant, Scalar};
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// The dtypes of a remainder with the divisor's sign.
const WIDE: &[DType] = &[F32, F16, BF16, F64, I64, I32];
/// The dtypes of a remainder with the dividend's sign.
const FMOD: &[DType] = &[F32, F16, BF16, F64, I64, I32, I8, U8];

/// The dtypes of angles.
const ANGLES: &[DType] = &[F32, F16, F64];

family! {
    /// Operators of two tensors.
    Binary of two;
    /// `a + b`; for booleans, logical or.
    Add add(a, b => y), elementwise.aclnnAddGetWorkspaceSize, aclnnAdd: USUAL, Same,
        [one: scalar = Constant::Scalar(Scalar::Int(1))] [] (a, b, one, y);

    /// `a − b`.
    Sub sub(a, b => y), elementwise.aclnnSubGetWorkspaceSize, aclnnSub: NUMBERS, Same,
        [one: scalar = Constant::Scalar(Scalar::Int(1))] [] (a, b, one, y);

    /// `a · b`; for booleans, logical and.
    Mul mul(a, b => y), elementwise.aclnnMulGetWorkspaceSize, aclnnMul: USUAL, Same,
        [] [] (a, b, y);

    /// `a / b`. Integers are divided in f32, which is the result's dtype.
    Div div(a, b => y), elementwise.aclnnDivGetWorkspaceSize, aclnnDiv: NUMBERS, Float,
        [] [] (a, b, y);

    /// `a / b` rounded towards zero. CANN does not define division of integers by zero.
    DivTrunc div_trunc(a, b => y), elementwise.aclnnDivModGetWorkspaceSize, aclnnDivMod: NUMBERS, Same,
        [] [1i64] (a, b, 1, y);

    /// `a / b` rounded down. CANN does not define division of integers by zero.
    DivFloor div_floor(a, b => y), elementwise.aclnnDivModGetWorkspaceSize, aclnnDivMod: NUMBERS, Same,
        [] [2i64] (a, b, 2, y);

    /// The maximum of `a` and `b`; NaN if one is NaN.
    Maximum maximum(a, b => y), elementwise.aclnnMaximumGetWorkspaceSize, aclnnMaximum: USUAL, Same,
        [] [] (a, b, y);

    /// The minimum of `a` and `b`; NaN if one is NaN.
    Minimum minimum(a, b => y), elementwise.aclnnMinimumGetWorkspaceSize, aclnnMinimum: USUAL, Same,
        [] [] (a, b, y);

    /// `a` to the power `b`.
    Pow pow(a, b => y), elementwise.aclnnPowTensorTensorGetWorkspaceSize, aclnnPowTensorTensor: NUMBERS, Same,
        [] [] (a, b, y);

    /// The remainder of `a / b` rounded down, with the sign of `b`.
    Remainder remainder(a, b => y), elementwise.aclnnRemainderTensorTensorGetWorkspaceSize, aclnnRemainderTensorTensor: WIDE, Same,
        [] [] (a, b, y);

    /// The remainder of `a / b` rounded towards zero, with the sign of `a`.
    Fmod fmod(a, b => y), elementwise.aclnnFmodTensorGetWorkspaceSize, aclnnFmodTensor: FMOD, Same,
        [] [] (a, b, y);

    /// The angle of the point with height `a` and width `b`.
    Atan2 atan2(a, b => y), elementwise.aclnnAtan2GetWorkspaceSize, aclnnAtan2: ANGLES, Same,
        [] [] (a, b, y);

    /// Bitwise and.
    BitAnd bitwise_and(a, b => y), elementwise.aclnnBitwiseAndTensorGetWorkspaceSize, aclnnBitwiseAndTensor: BITS, Same,
        [] [] (a, b, y);

    /// Bitwise or.
    BitOr bitwise_or(a, b => y), elementwise.aclnnBitwiseOrTensorGetWorkspaceSize, aclnnBitwiseOrTensor: BITS, Same,
        [] [] (a, b, y);

    /// Bitwise exclusive or.
    BitXor bitwise_xor(a, b => y), elementwise.aclnnBitwiseXorTensorGetWorkspaceSize, aclnnBitwiseXorTensor: BITS, Same,
        [] [] (a, b, y);

    /// `a` shifted left by `b`, which must not be negative and must be less than the number of bits of the dtype.
    LeftShift left_shift(a, b => y), elementwise.aclnnLeftShiftGetWorkspaceSize, aclnnLeftShift: INTEGERS, Same,
        [] [] (a, b, y);

    /// `a` shifted right by `b`, with the limits of [`left_shift`]. The sign stays.
    RightShift right_shift(a, b => y), elementwise.aclnnRightShiftGetWorkspaceSize, aclnnRightShift: INTEGERS, Same,
        [] [] (a, b, y);

    /// Logical and: `true` if both are not zero.
    And logical_and(a, b => y), elementwise.aclnnLogicalAndGetWorkspaceSize, aclnnLogicalAnd: USUAL, Bool,
        [] [] (a, b, y);

    /// Logical or: `true` if one or both are not zero.
    Or logical_or(a, b => y), elementwise.aclnnLogicalOrGetWorkspaceSize, aclnnLogicalOr: USUAL, Bool,
        [] [] (a, b, y);

    /// Logical exclusive or: `true` if exactly one is not zero.
    Xor logical_xor(a, b => y), elementwise.aclnnLogicalXorGetWorkspaceSize, aclnnLogicalXor: USUAL, Bool,
        [] [] (a, b, y);
}

family! {
    /// Operators of a tensor and a scalar.
    BinaryScalar of scalar;
    /// `x + value`.
    Add add_scalar(x, value => y), elementwise.aclnnAddsGetWorkspaceSize, aclnnAdds: USUAL, Same,
        [one: scalar = Constant::Scalar(Scalar::Int(1))] [] (x, value, one, y);

    /// `x − value`.
    Sub sub_scalar(x, value => y), elementwise.aclnnSubsGetWorkspaceSize, aclnnSubs: NUMBERS, Same,
        [one: scalar = Constant::Scalar(Scalar::Int(1))] [] (x, value, one, y);

    /// `x · value`.
    Mul mul_scalar(x, value => y), elementwise.aclnnMulsGetWorkspaceSize, aclnnMuls: USUAL, Same,
        [] [] (x, value, y);

    /// `x / value`. Integers are divided in f32, which is the result's dtype.
    Div div_scalar(x, value => y), elementwise.aclnnDivsGetWorkspaceSize, aclnnDivs: NUMBERS, Float,
        [] [] (x, value, y);

    /// `x / value` rounded towards zero.
    DivTrunc div_trunc_scalar(x, value => y), elementwise.aclnnDivModsGetWorkspaceSize, aclnnDivMods: NUMBERS, Same,
        [] [1i64] (x, value, 1, y);

    /// `x / value` rounded down.
    DivFloor div_floor_scalar(x, value => y), elementwise.aclnnDivModsGetWorkspaceSize, aclnnDivMods: NUMBERS, Same,
        [] [2i64] (x, value, 2, y);

    /// `x` to the power `value`.
    Pow pow_scalar(x, value => y), elementwise.aclnnPowTensorScalarGetWorkspaceSize, aclnnPowTensorScalar: NUMBERS, Same,
        [] [] (x, value, y);

    /// `value` to the power `x`.
    PowOf scalar_pow(x, value => y), elementwise.aclnnPowScalarTensorGetWorkspaceSize, aclnnPowScalarTensor: NUMBERS, Same,
        [] [] (value, x, y);

    /// The remainder of `x / value` rounded down, with the sign of `value`.
    Remainder remainder_scalar(x, value => y), elementwise.aclnnRemainderTensorScalarGetWorkspaceSize, aclnnRemainderTensorScalar: WIDE, Same,
        [] [] (x, value, y);

    /// The remainder of `x / value` rounded towards zero, with the sign of `x`.
    Fmod fmod_scalar(x, value => y), elementwise.aclnnFmodScalarGetWorkspaceSize, aclnnFmodScalar: FMOD, Same,
        [] [] (x, value, y);

    /// Bitwise and.
    BitAnd bitwise_and_scalar(x, value => y), elementwise.aclnnBitwiseAndScalarGetWorkspaceSize, aclnnBitwiseAndScalar: BITS, Same,
        [] [] (x, value, y);

    /// Bitwise or.
    BitOr bitwise_or_scalar(x, value => y), elementwise.aclnnBitwiseOrScalarGetWorkspaceSize, aclnnBitwiseOrScalar: BITS, Same,
        [] [] (x, value, y);

    /// Bitwise exclusive or.
    BitXor bitwise_xor_scalar(x, value => y), elementwise.aclnnBitwiseXorScalarGetWorkspaceSize, aclnnBitwiseXorScalar: BITS, Same,
        [] [] (x, value, y);

    /// `x`, but at least `value`; NaN stays.
    ClampMin clamp_min(x, value => y), elementwise.aclnnClampMinGetWorkspaceSize, aclnnClampMin: NUMBERS, Same,
        [] [] (x, value, y);

    /// `x`, but at most `value`; NaN stays.
    ClampMax clamp_max(x, value => y), elementwise.aclnnClampMaxGetWorkspaceSize, aclnnClampMax: NUMBERS, Same,
        [] [] (x, value, y);
}

/// Checks the operands of [`clamp`] and returns the spec of its result. `x` has numbers, and the bounds may be floats
/// only if `x` has floats.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_clamp(platform: &Platform, x: &Spec, low: Scalar, high: Scalar) -> Checked<Spec> {
    BinaryScalar::ClampMin.check(platform, x, low)?;
    BinaryScalar::ClampMax.check(platform, x, high)
}

/// Returns `x`, but at least `low` and at most `high`. If they contradict each other, `high` holds. NaN stays.
///
/// # Errors
///
/// Returns an error if [`check_clamp`] refuses the operands or a call fails.
pub fn clamp(
    stream: &Stream,
    x: &Tensor,
    low: impl Into<Scalar>,
    high: impl Into<Scalar>,
) -> Result<Tensor> {
    let (low, high) = (low.into(), high.into());
    let spec = check_clamp(stream.device().platform(), x.spec(), low, high)?;
    let out = Tensor::like(stream, &spec)?;
    if spec.is_empty() {
        return Ok(out);
    }
    let y = &out;
    aclnn!(
        stream, elementwise.aclnnClampGetWorkspaceSize, aclnnClamp,
        tensors [x, y],
        constants [low: scalar = Constant::Scalar(low), high: scalar = Constant::Scalar(high)],
        attributes [], call(x, low, high, y), out.clone(),
    )
}

/// Checks the operands of [`select`], a boolean mask and two tensors of one dtype, and returns the spec of the
/// broadcast result.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_select(platform: &Platform, mask: &Spec, yes: &Spec, no: &Spec) -> Checked<Spec> {
    check::processor(platform, "SWhere")?;
    check::view(("mask", mask), &[DType::Bool])?;
    check::view(("yes", yes), USUAL)?;
    check::view(("no", no), &[yes.dtype])?;
    let both = Spec::contiguous(yes.dtype, check::broadcast(("yes", yes), ("no", no))?)?;
    let shape = check::broadcast(("yes and no", &both), ("mask", mask))?;
    Ok(Spec::contiguous(yes.dtype, shape)?)
}

/// Returns `yes` where `mask` is true and `no` elsewhere (`aclnnSWhere`).
///
/// # Errors
///
/// Returns an error if [`check_select`] refuses the operands or a call fails.
pub fn select(stream: &Stream, mask: &Tensor, yes: &Tensor, no: &Tensor) -> Result<Tensor> {
    let device = stream.device();
    let spec = check_select(device.platform(), mask.spec(), yes.spec(), no.spec())?;
    let out = Tensor::like(stream, &spec)?;
    if spec.is_empty() {
        return Ok(out);
    }
    let y = &out;
    aclnn!(
        stream, index.aclnnSWhereGetWorkspaceSize, aclnnSWhere,
        tensors [mask, yes, no, y], constants [], attributes [],
        call(mask, yes, no, y), out.clone(),
    )
}
