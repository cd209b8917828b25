//! The replacement of NaN and of infinities.

use cann_sys::meta::*;

use super::{Dtypes, Gives, To, map, one};
use crate::abi::operators;
use crate::error::Outcome;
use crate::executor::{Operands, Work, phase_one};

/// The floats, integers and booleans, but for f64.
const TAKEN: &[aclDataType] = &[
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

fn take(
    operands: &mut Operands,
    input: *const aclTensor,
    to: To,
    [nan, positive, negative]: [f32; 3],
) -> Outcome<Work> {
    let x: Dtypes = one(operands, input, to, TAKEN, Gives::Equal)?;
    let float = [ACL_FLOAT, ACL_FLOAT16, ACL_BF16].contains(&x.of);
    Ok(if float {
        map(x, move |value: f32| match value {
            _ if value.is_nan() => nan,
            f32::INFINITY => positive,
            f32::NEG_INFINITY => negative,
            _ => value,
        })
    } else {
        map(x, |value: i64| value)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnNanToNumGetWorkspaceSize(
    input: *const aclTensor,
    nan: f32,
    positive: f32,
    negative: f32,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnNanToNum", workspace_size, executor, |operands| {
        take(
            operands,
            input,
            To::Output(output),
            [nan, positive, negative],
        )
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnInplaceNanToNumGetWorkspaceSize(
    target: *mut aclTensor,
    nan: f32,
    positive: f32,
    negative: f32,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let name = "aclnnInplaceNanToNum";
    phase_one(name, workspace_size, executor, |operands| {
        take(operands, target, To::Itself, [nan, positive, negative])
    })
}

operators! { elementwise:
    aclnnNanToNumGetWorkspaceSize, aclnnNanToNum;
    aclnnInplaceNanToNumGetWorkspaceSize, aclnnInplaceNanToNum;
}
