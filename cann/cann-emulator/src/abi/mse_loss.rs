//! The mean squared error and its gradient.

use crate::abi::prelude::*;
use crate::ops::sum;

fn check_reduction(reduction: i64) -> Outcome<()> {
    ensure!((0..=2).contains(&reduction);
        "reduction is {reduction}; 0 means none, 1 the mean, 2 the sum");
    Ok(())
}

// The reduction 0 means none, 1 the mean, 2 the sum.
operator! { training: aclnnMseLossGetWorkspaceSize, aclnnMseLoss(
    input, target, reduction, output
) |operands|
    let input = operands.view("self", input, FLOATS)?;
    let target = operands.view("target", target, FLOATS)?;
    let shape = broadcast(&input.shape, &target.shape)?;
    let dtype = promoted(input.dtype, target.dtype)?;
    check_reduction(reduction)?;
    let output = operands.target("out", output, FLOATS)?;
    if reduction == 0 {
        check_size("out", &output, &shape)?;
    } else if output.shape != [1] {
        check_size("out", &output, &[])?;
    }
    Ok(Arc::new(move |memory, operands| {
        let [input, target, out] = taken(operands);
        let input = input.expanded(&shape).floats(memory)?;
        let target = target.expanded(&shape).floats(memory)?;
        let squares = input.into_iter().zip(target).map(|(x, y)| (x - y) * (x - y));
        let squares: Vec<f32> = squares.collect();
        let values = match reduction {
            0 => squares,
            1 => vec![sum(&squares) / squares.len() as f32],
            _ => vec![sum(&squares)],
        };
        out.store_values_of(memory, &values, dtype)
    }))
}

operator! { training: aclnnMseLossBackwardGetWorkspaceSize, aclnnMseLossBackward(
    d_output, input, target, reduction, d_input
) |operands|
    let d_output = operands.view("gradOutput", d_output, FLOATS)?;
    let input = operands.view("self", input, FLOATS)?;
    let target = operands.view("target", target, FLOATS)?;
    check_reduction(reduction)?;
    let shape = broadcast(&broadcast(&d_output.shape, &input.shape)?, &target.shape)?;
    let dtype = promoted(promoted(d_output.dtype, input.dtype)?, target.dtype)?;
    let output = operands.target("out", d_input, FLOATS)?;
    check_size("out", &output, &shape)?;
    let count: usize = shape.iter().product();
    let factor = if reduction == 1 {
        2.0 / count as f32
    } else {
        2.0
    };
    Ok(Arc::new(move |memory, operands| {
        let [d_output, input, target, out] = taken(operands);
        let d_output = d_output.expanded(&shape).floats(memory)?;
        let input = input.expanded(&shape).floats(memory)?;
        let target = target.expanded(&shape).floats(memory)?;
        let all = d_output.into_iter().zip(input.into_iter().zip(target));
        let values: Vec<f32> = all.map(|(dy, (x, y))| factor * (x - y) * dy).collect();
        out.store_values_of(memory, &values, dtype)
    }))
}
