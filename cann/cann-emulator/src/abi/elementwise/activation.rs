//! Activations with parameters, and the gradient of SiLU.

use super::{Gives, map, one, two, zip};
use crate::abi::prelude::*;
use crate::ops::arithmetic::Float;

operator! { activation: aclnnGeluV2GetWorkspaceSize, aclnnGeluV2(
    input, approximation, output
) |operands|
    let x = one(operands, input, To::Output(output), FLOATS, Gives::Equal)?;
    ensure!((0..=1).contains(&approximation);
        "approximate is {approximation}; 0 means none, 1 tanh");
    let gelu = match approximation {
        1 => <f32 as Float>::gelu_tanh,
        _ => Float::gelu,
    };
    Ok(map(x, gelu))
}

operator! { activation: aclnnSiluBackwardGetWorkspaceSize, aclnnSiluBackward(
    d_output, input, d_input
) |operands|
    let to = To::Output(d_input);
    let x = two(operands, [d_output, input], to, FLOATS, Gives::Equal)?;
    Ok(zip(x, <f32 as Float>::silu_backward))
}

// x, or `slope · x` where x is not positive.
with_place! { activation: aclnnLeakyReluGetWorkspaceSize, aclnnLeakyRelu;
    aclnnInplaceLeakyReluGetWorkspaceSize, aclnnInplaceLeakyRelu (input, slope) |operands, to|
    let x = one(operands, input, to, REALS, Gives::Equal)?;
    let slope = operands.scalar("negativeSlope", slope)?;
    Ok(by_float!(x.of, T => {
        let slope: T = slope.to();
        map(x, move |x: T| if x > 0.0 { x } else { slope * x })
    }))
}

// `scale · x`, or `scale · alpha · (exp(inputScale · x) − 1)` where x is not positive.
with_place! { activation: aclnnEluGetWorkspaceSize, aclnnElu;
    aclnnInplaceEluGetWorkspaceSize, aclnnInplaceElu
    (input, alpha, scale, input_scale) |operands, to|
    let x = one(operands, input, to, FLOATS, Gives::Equal)?;
    let alpha: f32 = operands.scalar("alpha", alpha)?.to();
    let scale: f32 = operands.scalar("scale", scale)?.to();
    let input_scale: f32 = operands.scalar("inputScale", input_scale)?.to();
    Ok(map(x, move |x: f32| {
        if x > 0.0 {
            scale * x
        } else {
            scale * alpha * (input_scale * x).exp_m1()
        }
    }))
}

operator! { activation: aclnnSoftplusGetWorkspaceSize, aclnnSoftplus(
    input, beta, threshold, output
) |operands|
    let x = one(operands, input, To::Output(output), FLOATS, Gives::Equal)?;
    let beta: f32 = operands.scalar("beta", beta)?.to();
    let threshold: f32 = operands.scalar("threshold", threshold)?.to();
    // Above the threshold the result is x, to which it is close.
    Ok(map(x, move |x: f32| {
        if beta * x > threshold {
            x
        } else {
            (beta * x).exp().ln_1p() / beta
        }
    }))
}
