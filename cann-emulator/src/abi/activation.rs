//! SwiGLU and its gradient.

use std::sync::Arc;

use cann_sys::meta::*;

use crate::abi::operators;
use crate::error::{Outcome, ensure};
use crate::executor::{check_contiguous, check_dtype, check_shape, phase_one};
use crate::ops::glu;
use crate::tensor::Tensor;

/// Returns the shape of one half of x, and the number of its values that are contiguous.
fn halves(x: &Tensor, axis: i64) -> Outcome<(Vec<usize>, usize)> {
    check_dtype("x", x, &[ACL_FLOAT16, ACL_BF16, ACL_FLOAT])?;
    let rank = x.rank() as i64;
    ensure!(
        (-rank..rank).contains(&axis),
        ACLNN_ERR_PARAM_INVALID,
        "x has {rank} axes, there is no axis {axis}"
    );
    let axis = axis.rem_euclid(rank) as usize;
    ensure!(
        x.shape[axis].is_multiple_of(2),
        ACLNN_ERR_INNER_TILING_ERROR,
        "axis {axis} of x has an odd length, {}",
        x.shape[axis]
    );
    let mut half = x.shape.clone();
    half[axis] /= 2;
    let inner = half[axis..].iter().product();
    Ok((half, inner))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnSwiGluGetWorkspaceSize(
    x: *const aclTensor,
    axis: i64,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnSwiGlu", workspace_size, executor, |operands| {
        let (x, output) = (operands.input("x", x)?, operands.output("out", output)?);
        let (half, inner) = halves(&x, axis)?;
        check_dtype("out", &output, &[x.dtype])?;
        check_contiguous("x", &x)?;
        check_contiguous("out", &output)?;
        check_shape("out", &output, &half)?;
        Ok(Arc::new(move |memory, operands| {
            let [x, output] = operands else {
                unreachable!("taken above")
            };
            if x.count() == 0 {
                return Ok(());
            }
            let values = glu::swiglu(&x.floats(memory)?, inner, x.dtype == ACL_FLOAT);
            output.store(memory, &values)
        }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnSwiGluGradGetWorkspaceSize(
    dy: *const aclTensor,
    x: *const aclTensor,
    axis: i64,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnSwiGluGrad", workspace_size, executor, |operands| {
        let (dy, x) = (operands.input("yGrad", dy)?, operands.input("x", x)?);
        let output = operands.output("out", output)?;
        let (half, inner) = halves(&x, axis)?;
        ensure!(
            x.count() > 0,
            ACLNN_ERR_PARAM_INVALID,
            "x is empty, which the gradient does not take"
        );
        check_dtype("yGrad", &dy, &[x.dtype])?;
        check_dtype("out", &output, &[x.dtype])?;
        check_contiguous("yGrad", &dy)?;
        check_contiguous("out", &output)?;
        check_shape("yGrad", &dy, &half)?;
        check_shape("out", &output, &x.shape)?;
        Ok(Arc::new(move |memory, operands| {
            let [dy, x, output] = operands else {
                unreachable!("taken above")
            };
            let values = glu::swiglu_grad(&dy.floats(memory)?, &x.floats(memory)?, inner);
            output.store(memory, &values)
        }))
    })
}

operators! { activation:
    aclnnSwiGluGetWorkspaceSize, aclnnSwiGlu;
    aclnnSwiGluGradGetWorkspaceSize, aclnnSwiGluGrad;
}
