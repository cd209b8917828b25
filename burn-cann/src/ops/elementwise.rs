//! Arithmetic, bits and logic by element, of two tensors or a tensor and a scalar.

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

/// What has a remainder with the divisor's sign.
const WIDE: &[DType] = &[F32, F16, BF16, F64, I64, I32];
/// What has a remainder with the dividend's sign.
const FMOD: &[DType] = &[F32, F16, BF16, F64, I64, I32, I8, U8];

/// What angles are given in.
const ANGLES: &[DType] = &[F32, F16, F64];

family! {
    /// Operators of two tensors.
    Binary of two;
    /// `a + b`; of truth values whether one is true.
    Add add(a, b => y), elementwise.aclnnAddGetWorkspaceSize, aclnnAdd: USUAL, Same,
        [one: scalar = Constant::Scalar(Scalar::Int(1))] [] (a, b, one, y);

    /// `a − b`.
    Sub sub(a, b => y), elementwise.aclnnSubGetWorkspaceSize, aclnnSub: NUMBERS, Same,
        [one: scalar = Constant::Scalar(Scalar::Int(1))] [] (a, b, one, y);

    /// `a · b`; of truth values whether both are true.
    Mul mul(a, b => y), elementwise.aclnnMulGetWorkspaceSize, aclnnMul: USUAL, Same,
        [] [] (a, b, y);

    /// `a / b`; of integers in f32.
    Div div(a, b => y), elementwise.aclnnDivGetWorkspaceSize, aclnnDiv: NUMBERS, Float,
        [] [] (a, b, y);

    /// `a / b` rounded towards zero. By zero CANN does not say what of integers.
    DivTrunc div_trunc(a, b => y), elementwise.aclnnDivModGetWorkspaceSize, aclnnDivMod: NUMBERS, Same,
        [] [1i64] (a, b, 1, y);

    /// `a / b` rounded down. By zero CANN does not say what of integers.
    DivFloor div_floor(a, b => y), elementwise.aclnnDivModGetWorkspaceSize, aclnnDivMod: NUMBERS, Same,
        [] [2i64] (a, b, 2, y);

    /// The greater; NaN if one is.
    Maximum maximum(a, b => y), elementwise.aclnnMaximumGetWorkspaceSize, aclnnMaximum: USUAL, Same,
        [] [] (a, b, y);

    /// The lesser; NaN if one is.
    Minimum minimum(a, b => y), elementwise.aclnnMinimumGetWorkspaceSize, aclnnMinimum: USUAL, Same,
        [] [] (a, b, y);

    /// `a` to the power `b`.
    Pow pow(a, b => y), elementwise.aclnnPowTensorTensorGetWorkspaceSize, aclnnPowTensorTensor: NUMBERS, Same,
        [] [] (a, b, y);

    /// The rest of `a / b` rounded down, with the sign of `b`.
    Remainder remainder(a, b => y), elementwise.aclnnRemainderTensorTensorGetWorkspaceSize, aclnnRemainderTensorTensor: WIDE, Same,
        [] [] (a, b, y);

    /// The rest of `a / b` rounded towards zero, with the sign of `a`.
    Fmod fmod(a, b => y), elementwise.aclnnFmodTensorGetWorkspaceSize, aclnnFmodTensor: FMOD, Same,
        [] [] (a, b, y);

    /// The angle of a point of height `a` and width `b`.
    Atan2 atan2(a, b => y), elementwise.aclnnAtan2GetWorkspaceSize, aclnnAtan2: ANGLES, Same,
        [] [] (a, b, y);

    /// Bits that both have.
    BitAnd bitwise_and(a, b => y), elementwise.aclnnBitwiseAndTensorGetWorkspaceSize, aclnnBitwiseAndTensor: BITS, Same,
        [] [] (a, b, y);

    /// Bits that one has.
    BitOr bitwise_or(a, b => y), elementwise.aclnnBitwiseOrTensorGetWorkspaceSize, aclnnBitwiseOrTensor: BITS, Same,
        [] [] (a, b, y);

    /// Bits that one alone has.
    BitXor bitwise_xor(a, b => y), elementwise.aclnnBitwiseXorTensorGetWorkspaceSize, aclnnBitwiseXorTensor: BITS, Same,
        [] [] (a, b, y);

    /// Bits of `a` moved up by `b`, which is neither negative nor as large as the type is wide.
    LeftShift left_shift(a, b => y), elementwise.aclnnLeftShiftGetWorkspaceSize, aclnnLeftShift: INTEGERS, Same,
        [] [] (a, b, y);

    /// Bits of `a` moved down by `b`, as [`left_shift`]; the sign stays.
    RightShift right_shift(a, b => y), elementwise.aclnnRightShiftGetWorkspaceSize, aclnnRightShift: INTEGERS, Same,
        [] [] (a, b, y);

    /// Whether both are not zero.
    And logical_and(a, b => y), elementwise.aclnnLogicalAndGetWorkspaceSize, aclnnLogicalAnd: USUAL, Bool,
        [] [] (a, b, y);

    /// Whether one is not zero.
    Or logical_or(a, b => y), elementwise.aclnnLogicalOrGetWorkspaceSize, aclnnLogicalOr: USUAL, Bool,
        [] [] (a, b, y);

    /// Whether one alone is not zero.
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

    /// `x / value`; of integers in f32.
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

    /// The rest of `x / value` rounded down, with the sign of `value`.
    Remainder remainder_scalar(x, value => y), elementwise.aclnnRemainderTensorScalarGetWorkspaceSize, aclnnRemainderTensorScalar: WIDE, Same,
        [] [] (x, value, y);

    /// The rest of `x / value` rounded towards zero, with the sign of `x`.
    Fmod fmod_scalar(x, value => y), elementwise.aclnnFmodScalarGetWorkspaceSize, aclnnFmodScalar: FMOD, Same,
        [] [] (x, value, y);

    /// Bits that both have.
    BitAnd bitwise_and_scalar(x, value => y), elementwise.aclnnBitwiseAndScalarGetWorkspaceSize, aclnnBitwiseAndScalar: BITS, Same,
        [] [] (x, value, y);

    /// Bits that one has.
    BitOr bitwise_or_scalar(x, value => y), elementwise.aclnnBitwiseOrScalarGetWorkspaceSize, aclnnBitwiseOrScalar: BITS, Same,
        [] [] (x, value, y);

    /// Bits that one alone has.
    BitXor bitwise_xor_scalar(x, value => y), elementwise.aclnnBitwiseXorScalarGetWorkspaceSize, aclnnBitwiseXorScalar: BITS, Same,
        [] [] (x, value, y);

    /// `x`, at least `value`; NaN stays.
    ClampMin clamp_min(x, value => y), elementwise.aclnnClampMinGetWorkspaceSize, aclnnClampMin: NUMBERS, Same,
        [] [] (x, value, y);

    /// `x`, at most `value`; NaN stays.
    ClampMax clamp_max(x, value => y), elementwise.aclnnClampMaxGetWorkspaceSize, aclnnClampMax: NUMBERS, Same,
        [] [] (x, value, y);
}

/// What [`clamp`] makes of `x`: numbers, with floats as bounds only of floats.
///
/// # Errors
///
/// Why CANN would refuse.
pub fn check_clamp(platform: &Platform, x: &Spec, low: Scalar, high: Scalar) -> Checked<Spec> {
    BinaryScalar::ClampMin.check(platform, x, low)?;
    BinaryScalar::ClampMax.check(platform, x, high)
}

/// `x`, at least `low` and at most `high`, which wins; NaN stays.
///
/// # Errors
///
/// Refused by [`check_clamp`], or a call failed.
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

/// What [`select`] makes of its operands: a mask of bools and two tensors of one type, all broadcast.
///
/// # Errors
///
/// Why CANN would refuse.
pub fn check_select(platform: &Platform, mask: &Spec, yes: &Spec, no: &Spec) -> Checked<Spec> {
    check::processor(platform, "SWhere")?;
    check::view(("mask", mask), &[DType::Bool])?;
    check::view(("yes", yes), USUAL)?;
    check::view(("no", no), &[yes.dtype])?;
    let both = Spec::contiguous(yes.dtype, check::broadcast(("yes", yes), ("no", no))?)?;
    let shape = check::broadcast(("yes and no", &both), ("mask", mask))?;
    Ok(Spec::contiguous(yes.dtype, shape)?)
}

/// `yes` where `mask` is true, and `no` elsewhere: `aclnnSWhere`.
///
/// # Errors
///
/// Refused by [`check_select`], or a call failed.
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
