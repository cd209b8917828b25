//! Gradients of functions of one tensor, from the gradient of the result and the input or the result.

use std::ffi::{CStr, c_char};

use super::{Gives, two, zip};
use crate::abi::prelude::*;

/// The dtypes of a threshold: floats and integers without i16.
const THRESHOLD: &[aclDataType] = &[F32, F16, BF16, I64, I32, I8, U8];

/// Returns `dy · (Φ(x) + x · φ(x))`, where Φ and φ are those of the normal distribution.
fn gelu(dy: f32, x: f32) -> f32 {
    let (dy, x) = (f64::from(dy), f64::from(x));
    let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let below =
        0.5 * (1.0 + crate::ops::arithmetic::Float::erf(x * std::f64::consts::FRAC_1_SQRT_2));
    (dy * (below + x * density)) as f32
}

/// Returns the gradient of the approximation with tanh, which `aclnnGelu` computes.
fn gelu_tanh(dy: f32, x: f32) -> f32 {
    let (dy, x) = (f64::from(dy), f64::from(x));
    let factor = (2.0 / std::f64::consts::PI).sqrt();
    let tanh = (factor * (x + 0.044715 * x.powi(3))).tanh();
    let slope = factor * (1.0 + 3.0 * 0.044715 * x * x);
    (dy * (0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * slope)) as f32
}

/// Returns `dy · (tanh(s) + x · (1 − tanh²(s)) · σ(x))`, where s is `ln(1 + exp(x))`.
fn mish(dy: f32, x: f32) -> f32 {
    let (dy, x) = (f64::from(dy), f64::from(x));
    let tanh = (x.max(0.0) + (-x.abs()).exp().ln_1p()).tanh();
    let sigmoid = 1.0 / (1.0 + (-x).exp());
    (dy * (tanh + x * (1.0 - tanh * tanh) * sigmoid)) as f32
}

/// Defines gradients of two tensors of one dtype and shape, or of shapes that are broadcast.
macro_rules! of_two {
    ($($one:ident, $two:ident: $dtypes:expr => $apply:expr;)*) => {$(
        operator! { activation: $one, $two(d_output, input, d_input) |operands|
            let to = To::Output(d_input);
            let x = two(operands, [d_output, input], to, $dtypes, Gives::Equal)?;
            Ok(zip(x, $apply))
        }
    )*};
}

of_two! {
    aclnnSigmoidBackwardGetWorkspaceSize, aclnnSigmoidBackward: FLOATS
        => |dy: f32, y: f32| dy * y * (1.0 - y);
    aclnnTanhBackwardGetWorkspaceSize, aclnnTanhBackward: FLOATS
        => |dy: f32, y: f32| dy * (1.0 - y * y);
    aclnnGeluBackwardGetWorkspaceSize, aclnnGeluBackward: FLOATS => gelu_tanh;
    aclnnMishBackwardGetWorkspaceSize, aclnnMishBackward: FLOATS => mish;
    aclnnHardswishBackwardGetWorkspaceSize, aclnnHardswishBackward: FLOATS
        => |dy: f32, x: f32| match x {
            x if x < -3.0 => 0.0,
            x if x <= 3.0 => dy * (x / 3.0 + 0.5),
            _ => dy,
        };
}

/// Reads the name of a form of GELU.
///
/// # Safety
///
/// `approximation` must be NULL or a C string.
unsafe fn is_approximate(approximation: *const c_char) -> Outcome<bool> {
    ensure!(!approximation.is_null(), ACLNN_ERR_PARAM_NULLPTR; "approximate is NULL");
    // SAFETY: checked above, and the caller guarantees a C string.
    match unsafe { CStr::from_ptr(approximation) }.to_bytes() {
        b"none" => Ok(false),
        b"tanh" => Ok(true),
        other => fail!(
            "approximate is {}; supported: none, tanh",
            String::from_utf8_lossy(other)
        ),
    }
}

operator! { activation: aclnnGeluBackwardV2GetWorkspaceSize, aclnnGeluBackwardV2(
    d_output, input, approximation, d_input
) |operands|
    let to = To::Output(d_input);
    let x = two(operands, [d_output, input], to, FLOATS, Gives::Equal)?;
    // SAFETY: the caller guarantees a C string.
    let approximate = unsafe { is_approximate(approximation) }?;
    Ok(zip(x, if approximate { gelu_tanh } else { gelu }))
}

operator! { activation: aclnnThresholdBackwardGetWorkspaceSize, aclnnThresholdBackward(
    d_output, input, threshold, d_input
) |operands|
    let to = To::Output(d_input);
    let x = two(operands, [d_output, input], to, THRESHOLD, Gives::Equal)?;
    let threshold = operands.scalar("threshold", threshold)?;
    Ok(by_number!(x.of, T => {
        let threshold: T = threshold.to();
        zip(x, move |dy: T, x: T| if x > threshold { dy } else { T::from_i64(0) })
    }))
}

// The slope is that of the forward pass. The input may be its result, whose sign is the same for a slope that is not
// negative.
operator! { activation: aclnnLeakyReluBackwardGetWorkspaceSize, aclnnLeakyReluBackward(
    d_output, input, slope, input_is_result, d_input
) |operands|
    let to = To::Output(d_input);
    let x = two(operands, [d_output, input], to, FLOATS, Gives::Equal)?;
    let slope: f32 = operands.scalar("negativeSlope", slope)?.to();
    ensure!(!input_is_result || slope >= 0.0;
        "a result of the slope {slope} does not tell the sign of its input");
    Ok(zip(x, move |dy: f32, x: f32| if x > 0.0 { dy } else { slope * dy }))
}

operator! { activation: aclnnSoftplusBackwardGetWorkspaceSize, aclnnSoftplusBackward(
    d_output, input, beta, threshold, d_input
) |operands|
    let to = To::Output(d_input);
    let x = two(operands, [d_output, input], to, FLOATS, Gives::Equal)?;
    let beta: f32 = operands.scalar("beta", beta)?.to();
    let threshold: f32 = operands.scalar("threshold", threshold)?.to();
    // Above the threshold the result is x.
    Ok(zip(x, move |dy: f32, x: f32| {
        if beta * x > threshold {
            dy
        } else {
            dy / (1.0 + (-beta * x).exp())
        }
    }))
}

operator! { activation: aclnnEluBackwardGetWorkspaceSize, aclnnEluBackward(
    d_output, alpha, scale, input_scale, input_is_result, input, d_input
) |operands|
    let to = To::Output(d_input);
    let x = two(operands, [d_output, input], to, FLOATS, Gives::Equal)?;
    let alpha: f32 = operands.scalar("alpha", alpha)?.to();
    let scale: f32 = operands.scalar("scale", scale)?.to();
    let input_scale: f32 = operands.scalar("inputScale", input_scale)?.to();
    ensure!(!input_is_result || alpha >= 0.0;
        "a result of alpha {alpha} does not tell the sign of its input");
    Ok(zip(x, move |dy: f32, x: f32| {
        match (x > 0.0, input_is_result) {
            (true, _) => dy * scale,
            (false, true) => dy * input_scale * (x + scale * alpha),
            (false, false) => dy * input_scale * scale * alpha * (input_scale * x).exp(),
        }
    }))
}
