//! The comparison of numbers that need not be equal.

use cann_sys::meta::*;

use super::{Dtypes, zip};
use crate::abi::checks::{USUAL, broadcast, check_size};
use crate::abi::operators;
use crate::executor::phase_one;
use crate::number::{Number, by_number};

/// Returns `true` if two numbers are equal, or if both are finite and differ by no more than allowed.
fn close<T: Number>(left: T, right: T, [relative, absolute]: [f64; 2], equal_nan: bool) -> bool {
    let (x, y) = (left.to_f64(), right.to_f64());
    let finite = x.is_finite() && y.is_finite();
    left == right
        || (equal_nan && x.is_nan() && y.is_nan())
        || (finite && (x - y).abs() <= absolute + relative * y.abs())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnIsCloseGetWorkspaceSize(
    input: *const aclTensor,
    rhs: *const aclTensor,
    relative: f64,
    absolute: f64,
    equal_nan: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnIsClose", workspace_size, executor, |operands| {
        let left = operands.view("self", input, USUAL)?;
        let right = operands.view("other", rhs, &[left.dtype])?;
        let shape = broadcast(&left.shape, &right.shape)?;
        let output = operands.target("out", output, &[ACL_BOOL])?;
        check_size("out", &output, &shape)?;
        let x = Dtypes {
            of: left.dtype,
            gives: ACL_BOOL,
        };
        let limits = [relative, absolute];
        Ok(by_number!(x.of, T => zip(x, move |left: T, right: T| {
            i64::from(close(left, right, limits, equal_nan))
        })))
    })
}

operators! { elementwise: aclnnIsCloseGetWorkspaceSize, aclnnIsClose; }
