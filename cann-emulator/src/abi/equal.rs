//! Equality of two tensors as a whole.

use std::sync::Arc;

use cann_sys::meta::*;

use crate::abi::checks::USUAL;
use crate::abi::operators;
use crate::error::ensure;
use crate::executor::phase_one;
use crate::number::by_number;

// Tensors of different shapes are not equal, which is no error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnEqualGetWorkspaceSize(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnEqual", workspace_size, executor, |operands| {
        let input = operands.view("self", input, USUAL)?;
        operands.view("other", rhs, &[input.dtype])?;
        let output = operands.target("out", output, &[ACL_BOOL])?;
        ensure!(
            output.count() == 1,
            ACLNN_ERR_PARAM_INVALID,
            "out has the shape {:?}; one element is needed",
            output.shape
        );
        Ok(
            by_number!(input.dtype, T => Arc::new(move |memory, operands| {
                let [input, rhs, out] = operands else { unreachable!("taken above") };
                let equal = input.shape == rhs.shape
                    && input.values::<T>(memory)? == rhs.values::<T>(memory)?;
                out.store_values(memory, &[i64::from(equal)])
            })),
        )
    })
}

operators! { elementwise: aclnnEqualGetWorkspaceSize, aclnnEqual; }
