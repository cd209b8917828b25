//! Products with a vector.

use std::sync::Arc;

use cann_sys::meta::*;

use super::{Takes, take};
use crate::abi::checks::{FLOATS, check_size};
use crate::abi::operators;
use crate::error::ensure;
use crate::executor::phase_one;
use crate::ops::sum;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnMvGetWorkspaceSize(
    input: *const aclTensor,
    vector: *const aclTensor,
    output: *mut aclTensor,
    cube_math: i8,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnMv", workspace_size, executor, |operands| {
        let takes = Takes {
            left: 2..=2,
            right: 1..=1,
            converts: false,
            equal: true,
        };
        take(operands, [input, vector], output, cube_math, &takes)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnDotGetWorkspaceSize(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnDot", workspace_size, executor, |operands| {
        let input = operands.view("self", input, FLOATS)?;
        ensure!(
            input.rank() == 1,
            ACLNN_ERR_PARAM_INVALID,
            "self has {} axes; it takes one",
            input.rank()
        );
        let rhs = operands.view("tensor", rhs, &[input.dtype])?;
        check_size("tensor", &rhs, &input.shape)?;
        operands.result("out", output, input.dtype, &[])?;
        Ok(Arc::new(move |memory, operands| {
            let [input, rhs, out] = operands else {
                unreachable!("taken above")
            };
            let pairs = input.floats(memory)?.into_iter().zip(rhs.floats(memory)?);
            let products: Vec<f32> = pairs.map(|(x, y)| x * y).collect();
            out.store(memory, &[sum(&products)])
        }))
    })
}

operators! { matmul:
    aclnnMvGetWorkspaceSize, aclnnMv;
    aclnnDotGetWorkspaceSize, aclnnDot;
}
