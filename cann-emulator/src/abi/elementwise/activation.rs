//! Activations with parameters, and the gradient of SiLU.

use cann_sys::meta::*;

use super::{Gives, To, map, one, two, zip};
use crate::abi::checks::{FLOATS, REALS};
use crate::abi::operators;
use crate::error::{Outcome, ensure};
use crate::executor::{Operands, Work, phase_one};
use crate::ops::arithmetic::Float;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnGeluV2GetWorkspaceSize(
    input: *const aclTensor,
    approximation: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnGeluV2", workspace_size, executor, |operands| {
        let x = one(operands, input, To::Output(output), FLOATS, Gives::Equal)?;
        ensure!(
            (0..=1).contains(&approximation),
            ACLNN_ERR_PARAM_INVALID,
            "approximate is {approximation}; 0 is none, 1 is tanh"
        );
        let gelu = match approximation {
            1 => <f32 as Float>::gelu_tanh,
            _ => Float::gelu,
        };
        Ok(map(x, gelu))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnSiluBackwardGetWorkspaceSize(
    d_output: *const aclTensor,
    input: *const aclTensor,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnSiluBackward", workspace_size, executor, |operands| {
        let to = To::Output(d_input);
        let x = two(operands, [d_output, input], to, FLOATS, Gives::Equal)?;
        Ok(zip(x, <f32 as Float>::silu_backward))
    })
}

/// Takes `x`, or `slope · x` where x is not positive.
fn leaky(
    operands: &mut Operands,
    (input, slope): (*const aclTensor, *const aclScalar),
    to: To,
) -> Outcome<Work> {
    let x = one(operands, input, to, REALS, Gives::Equal)?;
    let slope = operands.scalar("negativeSlope", slope)?;
    Ok(by_float!(x.of, T => {
        let slope: T = slope.to();
        map(x, move |x: T| if x > 0.0 { x } else { slope * x })
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnLeakyReluGetWorkspaceSize(
    input: *const aclTensor,
    slope: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnLeakyRelu", workspace_size, executor, |operands| {
        leaky(operands, (input, slope), To::Output(output))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnInplaceLeakyReluGetWorkspaceSize(
    target: *mut aclTensor,
    slope: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one(
        "aclnnInplaceLeakyRelu",
        workspace_size,
        executor,
        |operands| leaky(operands, (target.cast_const(), slope), To::Itself),
    )
}

/// Takes `scale · x`, or `scale · alpha · (exp(inputScale · x) − 1)` where x is not positive.
fn elu(
    operands: &mut Operands,
    (input, parameters): (*const aclTensor, [*const aclScalar; 3]),
    to: To,
) -> Outcome<Work> {
    let x = one(operands, input, to, FLOATS, Gives::Equal)?;
    let [alpha, scale, input_scale] = parameters;
    let alpha: f32 = operands.scalar("alpha", alpha)?.to();
    let scale: f32 = operands.scalar("scale", scale)?.to();
    let input_scale: f32 = operands.scalar("inputScale", input_scale)?.to();
    Ok(map(x, move |x: f32| {
        if x > 0.0 {
            scale * x
        } else {
            scale * alpha * (input_scale * x).exp_m1()
        }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnEluGetWorkspaceSize(
    input: *const aclTensor,
    alpha: *const aclScalar,
    scale: *const aclScalar,
    input_scale: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnElu", workspace_size, executor, |operands| {
        let inputs = (input, [alpha, scale, input_scale]);
        elu(operands, inputs, To::Output(output))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnInplaceEluGetWorkspaceSize(
    target: *mut aclTensor,
    alpha: *const aclScalar,
    scale: *const aclScalar,
    input_scale: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnInplaceElu", workspace_size, executor, |operands| {
        let inputs = (target.cast_const(), [alpha, scale, input_scale]);
        elu(operands, inputs, To::Itself)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnSoftplusGetWorkspaceSize(
    input: *const aclTensor,
    beta: *const aclScalar,
    threshold: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnSoftplus", workspace_size, executor, |operands| {
        let x = one(operands, input, To::Output(output), FLOATS, Gives::Equal)?;
        let beta: f32 = operands.scalar("beta", beta)?.to();
        let threshold: f32 = operands.scalar("threshold", threshold)?.to();
        // Above the threshold the result is x, to which it is close.
        Ok(map(x, move |x: f32| {
            if beta * x > threshold {
                x
            } else {
                (beta * x).exp().ln_1p() / beta
            }
        }))
    })
}

operators! { activation:
    aclnnGeluV2GetWorkspaceSize, aclnnGeluV2;
    aclnnLeakyReluGetWorkspaceSize, aclnnLeakyRelu;
    aclnnInplaceLeakyReluGetWorkspaceSize, aclnnInplaceLeakyRelu;
    aclnnEluGetWorkspaceSize, aclnnElu;
    aclnnInplaceEluGetWorkspaceSize, aclnnInplaceElu;
    aclnnSoftplusGetWorkspaceSize, aclnnSoftplus;
    aclnnSiluBackwardGetWorkspaceSize, aclnnSiluBackward;
}
