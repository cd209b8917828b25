//! SwiGLU, GEGLU and their gradients.

use std::sync::Arc;

use cann_sys::meta::*;

use crate::abi::operators;
use crate::error::{Outcome, ensure};
use crate::executor::{check_contiguous, check_dtype, check_shape, phase_one};
use crate::ops::glu::{self, GeGlu};
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

/// Checks a shape of GEGLU, which has an error code of its own for it.
fn check_size(name: &str, tensor: &Tensor, shape: &[usize]) -> Outcome<()> {
    ensure!(
        tensor.shape == shape,
        ACLNN_ERR_PARAM_INVALID,
        "{name} is {:?}, but must be {shape:?}",
        tensor.shape
    );
    Ok(())
}

/// Checks the numbers and the halves of GEGLU. Returns the shape of a half.
fn geglu(
    x: &Tensor,
    axis: i64,
    approximation: i64,
    gate_first: bool,
) -> Outcome<(Vec<usize>, GeGlu)> {
    let rank = x.rank() as i64;
    let odd = usize::try_from(axis.rem_euclid(rank.max(1)))
        .ok()
        .and_then(|axis| x.shape.get(axis))
        .is_some_and(|length| !length.is_multiple_of(2));
    ensure!(
        !odd,
        ACLNN_ERR_PARAM_INVALID,
        "axis {axis} of x has an odd length"
    );
    let (half, inner) = halves(x, axis)?;
    ensure!(
        (0..=1).contains(&approximation),
        ACLNN_ERR_PARAM_INVALID,
        "approximate is {approximation}; 0 is none, 1 is tanh"
    );
    let numbers = GeGlu {
        inner,
        approximate: approximation == 1,
        gate_first,
    };
    Ok((half, numbers))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnGeGluV3GetWorkspaceSize(
    x: *const aclTensor,
    axis: i64,
    approximation: i64,
    gate_first: bool,
    output: *mut aclTensor,
    gelu: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnGeGluV3", workspace_size, executor, |operands| {
        let x = operands.input("self", x)?;
        let (output, gelu) = (
            operands.output("out", output)?,
            operands.output("outGelu", gelu)?,
        );
        let (half, numbers) = geglu(&x, axis, approximation, gate_first)?;
        for (name, tensor) in [("out", &output), ("outGelu", &gelu)] {
            check_dtype(name, tensor, &[x.dtype])?;
            check_size(name, tensor, &half)?;
        }
        Ok(Arc::new(move |memory, operands| {
            let [x, output, gelu] = operands else {
                unreachable!("taken above")
            };
            let [values, activated] = numbers.forward(&x.floats(memory)?);
            output.store(memory, &values)?;
            gelu.store(memory, &activated)
        }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnGeGluV3BackwardGetWorkspaceSize(
    dy: *const aclTensor,
    x: *const aclTensor,
    gelu: *const aclTensor,
    axis: i64,
    approximation: i64,
    gate_first: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one(
        "aclnnGeGluV3Backward",
        workspace_size,
        executor,
        |operands| {
            let (dy, x) = (
                operands.input("gradOutput", dy)?,
                operands.input("self", x)?,
            );
            let gelu = operands.input("gelu", gelu)?;
            let output = operands.output("gradInput", output)?;
            ensure!(
                x.rank() > 0,
                ACLNN_ERR_PARAM_INVALID,
                "self has no axis, which the gradient does not take"
            );
            let (half, numbers) = geglu(&x, axis, approximation, gate_first)?;
            for (name, tensor) in [("gradOutput", &dy), ("gelu", &gelu)] {
                check_dtype(name, tensor, &[x.dtype])?;
                check_size(name, tensor, &half)?;
            }
            check_dtype("gradInput", &output, &[x.dtype])?;
            check_size("gradInput", &output, &x.shape)?;
            Ok(Arc::new(move |memory, operands| {
                let [dy, x, gelu, output] = operands else {
                    unreachable!("taken above")
                };
                let between = (x.dtype == ACL_FLOAT16).then_some(ACL_FLOAT16);
                let [dy, values, gelu] = [dy, x, gelu].map(|tensor| tensor.floats(memory));
                output.store(memory, &numbers.backward(&dy?, &values?, &gelu?, between))
            }))
        },
    )
}

operators! { activation:
    aclnnGeGluV3GetWorkspaceSize, aclnnGeGluV3;
    aclnnGeGluV3BackwardGetWorkspaceSize, aclnnGeGluV3Backward;
    aclnnSwiGluGetWorkspaceSize, aclnnSwiGlu;
    aclnnSwiGluGradGetWorkspaceSize, aclnnSwiGluGrad;
}
