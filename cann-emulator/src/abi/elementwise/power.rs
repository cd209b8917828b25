//! Powers, and bounds given as scalars.

use cann_sys::meta::*;

use super::{Dtypes, Gives, To, factor, map, one, with_scalar};
use crate::abi::checks::{NUMBERS, USUAL};
use crate::abi::operators;
use crate::error::{Outcome, ensure};
use crate::executor::{Operands, Work, phase_one};
use crate::number::by_number;
use crate::ops::arithmetic::{Arithmetic, clamp};

/// Checks that a power is not one of two booleans.
pub(super) fn check_power(dtypes: Dtypes) -> Outcome<()> {
    ensure!(
        dtypes.of != ACL_BOOL,
        ACLNN_ERR_PARAM_INVALID,
        "a boolean to the power of another is not computed"
    );
    Ok(())
}

/// Takes a tensor and its exponent.
fn power(
    operands: &mut Operands,
    inputs: (*const aclTensor, *const aclScalar),
    to: To,
) -> Outcome<Work> {
    let (x, exponent) = with_scalar(operands, inputs, to, USUAL, Gives::Same)?;
    check_power(x)?;
    Ok(arithmetic!(x, power, exponent))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnPowTensorScalarGetWorkspaceSize(
    input: *const aclTensor,
    exponent: *const aclScalar,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let name = "aclnnPowTensorScalar";
    phase_one(name, workspace_size, executor, |operands| {
        power(operands, (input, exponent), To::Output(output))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnInplacePowTensorScalarGetWorkspaceSize(
    target: *const aclTensor,
    exponent: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let name = "aclnnInplacePowTensorScalar";
    phase_one(name, workspace_size, executor, |operands| {
        power(operands, (target, exponent), To::Itself)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnPowScalarTensorGetWorkspaceSize(
    input: *const aclScalar,
    exponent: *const aclTensor,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one(
        "aclnnPowScalarTensor",
        workspace_size,
        executor,
        |operands| {
            let (to, gives) = (To::Output(output), Gives::Same);
            let (x, base) = with_scalar(operands, (exponent, input), to, USUAL, gives)?;
            check_power(x)?;
            Ok(by_number!(x.of, T => {
                let base: T = base.to();
                map(x, move |exponent: T| base.power(exponent))
            }))
        },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnClampGetWorkspaceSize(
    input: *const aclTensor,
    low: *const aclScalar,
    high: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnClamp", workspace_size, executor, |operands| {
        let x = one(operands, input, To::Output(output), NUMBERS, Gives::Same)?;
        ensure!(
            !(low.is_null() && high.is_null()),
            ACLNN_ERR_PARAM_NULLPTR,
            "clipValueMin and clipValueMax are both NULL"
        );
        let bound = |name, scalar: *const aclScalar| match scalar.is_null() {
            true => Ok(None),
            false => factor(operands, name, scalar, x).map(Some),
        };
        let (low, high) = (bound("clipValueMin", low)?, bound("clipValueMax", high)?);
        Ok(by_number!(x.of, T => {
            let (low, high) = (low.map(|low| low.to::<T>()), high.map(|high| high.to::<T>()));
            map(x, move |x: T| clamp(x, low, high))
        }))
    })
}

operators! { elementwise:
    aclnnInplacePowTensorScalarGetWorkspaceSize, aclnnInplacePowTensorScalar;
    aclnnPowTensorScalarGetWorkspaceSize, aclnnPowTensorScalar;
    aclnnPowScalarTensorGetWorkspaceSize, aclnnPowScalarTensor;
    aclnnClampGetWorkspaceSize, aclnnClamp;
}
