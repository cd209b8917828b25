//! Equality of two tensors as a whole.

use crate::abi::prelude::*;

// Tensors of different shapes are not equal, which is not an error.
operator! { elementwise: aclnnEqualGetWorkspaceSize, aclnnEqual(input, rhs, output) |operands|
    let input = operands.view("self", input, USUAL)?;
    operands.view("other", rhs, &[input.dtype])?;
    let output = operands.target("out", output, &[ACL_BOOL])?;
    ensure!(output.count() == 1; "out has the shape {:?}; one element is needed", output.shape);
    Ok(by_number!(input.dtype, T => Arc::new(move |memory, operands| {
        let [input, rhs, out] = taken(operands);
        let equal = input.shape == rhs.shape
            && input.values::<T>(memory)? == rhs.values::<T>(memory)?;
        out.store_values(memory, &[i64::from(equal)])
    })))
}
