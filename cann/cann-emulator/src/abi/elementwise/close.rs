//! The comparison of numbers that need not be equal.

use super::{Dtypes, zip};
use crate::abi::prelude::*;

/// Returns `true` if two numbers are equal, or if both are finite and differ by no more than allowed.
fn close<T: Number>(left: T, right: T, [relative, absolute]: [f64; 2], equal_nan: bool) -> bool {
    let (x, y) = (left.to_f64(), right.to_f64());
    let finite = x.is_finite() && y.is_finite();
    left == right
        || (equal_nan && x.is_nan() && y.is_nan())
        || (finite && (x - y).abs() <= absolute + relative * y.abs())
}

operator! { elementwise: aclnnIsCloseGetWorkspaceSize, aclnnIsClose(
    input, rhs, relative, absolute, equal_nan, output
) |operands|
    let left = operands.view("self", input, USUAL)?;
    let right = operands.view("other", rhs, &[left.dtype])?;
    let shape = broadcast(&left.shape, &right.shape)?;
    let output = operands.target("out", output, &[ACL_BOOL])?;
    check_size("out", &output, &shape)?;
    let x = Dtypes { of: left.dtype, gives: ACL_BOOL };
    let limits = [relative, absolute];
    Ok(by_number!(x.of, T => zip(x, move |left: T, right: T| {
        i64::from(close(left, right, limits, equal_nan))
    })))
}
