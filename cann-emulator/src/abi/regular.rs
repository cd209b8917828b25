//! Tensors whose values follow a rule: equal steps, and the identity matrix.

use std::sync::Arc;

use cann_sys::meta::*;

use crate::abi::checks::check_size;
use crate::abi::operators;
use crate::error::{Outcome, ensure};
use crate::executor::phase_one;

/// The dtypes of equal steps.
const STEPS: &[aclDataType] = &[
    ACL_FLOAT,
    ACL_FLOAT16,
    ACL_BF16,
    ACL_DOUBLE,
    ACL_UINT8,
    ACL_INT8,
    ACL_INT16,
    ACL_INT32,
];
/// The dtypes of the identity matrix.
const EYE: &[aclDataType] = &[
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

/// Returns a number of elements that is not negative.
fn length(name: &str, value: i64) -> Outcome<usize> {
    ensure!(
        value >= 0,
        ACLNN_ERR_PARAM_INVALID,
        "{name} is {value}; it must not be negative"
    );
    Ok(value as usize)
}

// As in PyTorch, the second half is counted from the end, so that the last value is exact.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnLinspaceGetWorkspaceSize(
    start: *const aclScalar,
    end: *const aclScalar,
    steps: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnLinspace", workspace_size, executor, |operands| {
        let start = operands.scalar("start", start)?.to::<f64>();
        let end = operands.scalar("end", end)?.to::<f64>();
        let count = length("steps", steps)?;
        let output = operands.target("out", output, STEPS)?;
        check_size("out", &output, &[count])?;
        Ok(Arc::new(move |memory, operands| {
            let step = (end - start) / (count.max(2) - 1) as f64;
            let value = |at: usize| {
                if at < count.div_ceil(2) {
                    start + step * at as f64
                } else {
                    end - step * (count - 1 - at) as f64
                }
            };
            let values: Vec<f64> = (0..count).map(value).collect();
            operands[0].store_values(memory, &values)
        }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnEyeGetWorkspaceSize(
    rows: i64,
    columns: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnEye", workspace_size, executor, |operands| {
        let (rows, columns) = (length("n", rows)?, length("m", columns)?);
        let output = operands.target("out", output, EYE)?;
        check_size("out", &output, &[rows, columns])?;
        Ok(Arc::new(move |memory, operands| {
            let places = 0..rows * columns;
            let values: Vec<i64> = places
                .map(|at| i64::from(at / columns == at % columns))
                .collect();
            operands[0].store_values(memory, &values)
        }))
    })
}

operators! { create:
    aclnnLinspaceGetWorkspaceSize, aclnnLinspace;
    aclnnEyeGetWorkspaceSize, aclnnEye;
}
