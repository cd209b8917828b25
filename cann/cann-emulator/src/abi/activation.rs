//! SwiGLU, GEGLU and their gradients.

use crate::abi::prelude::*;
use crate::ops::glu::{self, GeGlu};

/// Returns the shape of one half of x, and the number of its values that are contiguous.
fn halves(x: &Tensor, axis: i64) -> Outcome<(Vec<usize>, usize)> {
    check_dtype("x", x, &[ACL_FLOAT16, ACL_BF16, ACL_FLOAT])?;
    let rank = x.rank() as i64;
    ensure!((-rank..rank).contains(&axis); "axis {axis} is out of range for x, which has {rank} axes");
    let axis = axis.rem_euclid(rank) as usize;
    ensure!(x.shape[axis].is_multiple_of(2), ACLNN_ERR_INNER_TILING_ERROR;
        "axis {axis} of x has an odd length, {}", x.shape[axis]);
    let mut half = x.shape.clone();
    half[axis] /= 2;
    let inner = half[axis..].iter().product();
    Ok((half, inner))
}

operator! { activation: aclnnSwiGluGetWorkspaceSize, aclnnSwiGlu(x, axis, output) |operands|
    let (x, output) = (operands.input("x", x)?, operands.output("out", output)?);
    let (half, inner) = halves(&x, axis)?;
    check_dtype("out", &output, &[x.dtype])?;
    check_contiguous("x", &x)?;
    check_contiguous("out", &output)?;
    check_shape("out", &output, &half)?;
    Ok(Arc::new(move |memory, operands| {
        let [x, output] = taken(operands);
        if x.count() == 0 {
            return Ok(());
        }
        let values = glu::swiglu(&x.floats(memory)?, inner, x.dtype == ACL_FLOAT);
        output.store(memory, &values)
    }))
}

operator! { activation: aclnnSwiGluGradGetWorkspaceSize, aclnnSwiGluGrad(
    dy, x, axis, output
) |operands|
    let (dy, x) = (operands.input("yGrad", dy)?, operands.input("x", x)?);
    let output = operands.output("out", output)?;
    let (half, inner) = halves(&x, axis)?;
    ensure!(x.count() > 0; "x is empty, which the gradient does not take");
    check_dtype("yGrad", &dy, &[x.dtype])?;
    check_dtype("out", &output, &[x.dtype])?;
    check_contiguous("yGrad", &dy)?;
    check_contiguous("out", &output)?;
    check_shape("yGrad", &dy, &half)?;
    check_shape("out", &output, &x.shape)?;
    Ok(Arc::new(move |memory, operands| {
        let [dy, x, output] = taken(operands);
        let values = glu::swiglu_grad(&dy.floats(memory)?, &x.floats(memory)?, inner);
        output.store(memory, &values)
    }))
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
    ensure!(!odd; "axis {axis} of x has an odd length");
    let (half, inner) = halves(x, axis)?;
    ensure!((0..=1).contains(&approximation);
        "approximate is {approximation}; 0 means none, 1 tanh");
    let numbers = GeGlu {
        inner,
        approximate: approximation == 1,
        gate_first,
    };
    Ok((half, numbers))
}

operator! { activation: aclnnGeGluV3GetWorkspaceSize, aclnnGeGluV3(
    x, axis, approximation, gate_first, output, gelu
) |operands|
    let x = operands.input("self", x)?;
    let (output, gelu) = (operands.output("out", output)?, operands.output("outGelu", gelu)?);
    let (half, numbers) = geglu(&x, axis, approximation, gate_first)?;
    for (name, tensor) in [("out", &output), ("outGelu", &gelu)] {
        check_dtype(name, tensor, &[x.dtype])?;
        check_size(name, tensor, &half)?;
    }
    Ok(Arc::new(move |memory, operands| {
        let [x, output, gelu] = taken(operands);
        let [values, activated] = numbers.forward(&x.floats(memory)?);
        output.store(memory, &values)?;
        gelu.store(memory, &activated)
    }))
}

operator! { activation: aclnnGeGluV3BackwardGetWorkspaceSize, aclnnGeGluV3Backward(
    dy, x, gelu, axis, approximation, gate_first, output
) |operands|
    let dy = operands.input("gradOutput", dy)?;
    let x = operands.input("self", x)?;
    let gelu = operands.input("gelu", gelu)?;
    let output = operands.output("gradInput", output)?;
    ensure!(x.rank() > 0; "self has no axis, which the gradient does not take");
    let (half, numbers) = geglu(&x, axis, approximation, gate_first)?;
    for (name, tensor) in [("gradOutput", &dy), ("gelu", &gelu)] {
        check_dtype(name, tensor, &[x.dtype])?;
        check_size(name, tensor, &half)?;
    }
    check_dtype("gradInput", &output, &[x.dtype])?;
    check_size("gradInput", &output, &x.shape)?;
    Ok(Arc::new(move |memory, operands| {
        let [dy, x, gelu, output] = taken(operands);
        let between = (x.dtype == ACL_FLOAT16).then_some(ACL_FLOAT16);
        let [dy, values, gelu] = [dy, x, gelu].map(|tensor| tensor.floats(memory));
        output.store(memory, &numbers.backward(&dy?, &values?, &gelu?, between))
    }))
}
