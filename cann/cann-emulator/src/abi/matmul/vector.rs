//! Products with a vector.

use super::{Takes, take};
use crate::abi::prelude::*;
use crate::ops::sum;

operator! { matmul: aclnnMvGetWorkspaceSize, aclnnMv(input, vector, output, cube_math) |operands|
    let takes = Takes { left: 2..=2, right: 1..=1, converts: false, equal: true };
    take(operands, [input, vector], output, cube_math, &takes)
}

operator! { matmul: aclnnDotGetWorkspaceSize, aclnnDot(input, rhs, output) |operands|
    let input = operands.view("self", input, FLOATS)?;
    ensure!(input.rank() == 1; "self has {} axes; it takes one", input.rank());
    let rhs = operands.view("tensor", rhs, &[input.dtype])?;
    check_size("tensor", &rhs, &input.shape)?;
    operands.result("out", output, input.dtype, &[])?;
    Ok(Arc::new(move |memory, operands| {
        let [input, rhs, out] = taken(operands);
        let pairs = input.floats(memory)?.into_iter().zip(rhs.floats(memory)?);
        let products: Vec<f32> = pairs.map(|(x, y)| x * y).collect();
        out.store(memory, &[sum(&products)])
    }))
}
