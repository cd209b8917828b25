//! Binary cross entropies of probabilities and of logits, and their gradients.
//!
//! As in PyTorch, the logarithm of a probability is at least -100, and the divisor of the gradient at least 1e-12. CANN
//! documents no such limits.
//!
//! Only chips that have bf16 have the gradient of the targets of logits. Older documents ask for the dtype of the target,
//! and newer ones convert the gradient; the dtype of the target is taken.

use crate::abi::losses::{Input, Rules, gradient, loss};
use crate::abi::prelude::*;

/// The rules of probabilities.
const PROBABILITIES: Rules = Rules {
    reductions: 2,
    one_dtype: true,
    one_shape: true,
    of_target: false,
};
/// The rules of logits, which meet a target of any float.
const LOGITS: Rules = Rules {
    reductions: 2,
    one_dtype: false,
    one_shape: true,
    of_target: false,
};
/// The rules of the gradient of the targets of logits.
const TARGETS: Rules = Rules {
    of_target: true,
    ..LOGITS
};

const LEAST_LOGARITHM: f32 = -100.0;
const LEAST_DIVISOR: f32 = 1e-12;

fn of_probability([x, y, weight, _]: [f32; 4]) -> f32 {
    let logarithm = |probability: f32| probability.ln().max(LEAST_LOGARITHM);
    -weight * (y * logarithm(x) + (1.0 - y) * logarithm(1.0 - x))
}

fn of_probability_slope([x, y, weight, _]: [f32; 4]) -> f32 {
    weight * (x - y) / (x * (1.0 - x)).max(LEAST_DIVISOR)
}

/// Returns the factor of `-ln σ(x)`, of which the target has its part.
fn log_factor(y: f32, positive: f32) -> f32 {
    1.0 + (positive - 1.0) * y
}

/// Returns `-ln σ(x)`, without exponents of large numbers.
fn minus_log_sigmoid(x: f32) -> f32 {
    (-x).max(0.0) + (-x.abs()).exp().ln_1p()
}

fn of_logit([x, y, weight, positive]: [f32; 4]) -> f32 {
    weight * ((1.0 - y) * x + log_factor(y, positive) * minus_log_sigmoid(x))
}

fn of_logit_slope([x, y, weight, positive]: [f32; 4]) -> f32 {
    let probability = 1.0 / (1.0 + (-x).exp());
    weight * (log_factor(y, positive) * probability - positive * y)
}

/// Returns the derivative by the target, `weight · (ln(1 − σ(x)) − positive · ln σ(x))`.
fn of_target_slope([x, _, weight, positive]: [f32; 4]) -> f32 {
    weight * (positive * minus_log_sigmoid(x) - minus_log_sigmoid(-x))
}

/// Returns the inputs of a loss of logits.
fn logits([input, target, weight, positive]: [*const aclTensor; 4]) -> [Input; 4] {
    [
        Input::needed("self", input),
        Input::needed("target", target),
        Input::factor("weightOptional", weight),
        Input::factor("posWeightOptional", positive),
    ]
}

operator! { training: aclnnBinaryCrossEntropyGetWorkspaceSize, aclnnBinaryCrossEntropy(
    input, target, weight, reduction, output
) |operands|
    let inputs = [
        Input::needed("self", input),
        Input::needed("target", target),
        Input::factor("weight", weight),
    ];
    loss(operands, &inputs, reduction, PROBABILITIES, output, of_probability)
}

operator! { training:
    aclnnBinaryCrossEntropyBackwardGetWorkspaceSize, aclnnBinaryCrossEntropyBackward(
    d_output, input, target, weight, reduction, d_input
) |operands|
    let inputs = [
        Input::needed("self", input),
        Input::needed("target", target),
        Input::factor("weightOptional", weight),
    ];
    let inputs = (("gradOutput", d_output), &inputs[..]);
    gradient(operands, inputs, reduction, PROBABILITIES, d_input, of_probability_slope)
}

operator! { training:
    aclnnBinaryCrossEntropyWithLogitsGetWorkspaceSize, aclnnBinaryCrossEntropyWithLogits(
    input, target, weight, positive, reduction, output
) |operands|
    let inputs = logits([input, target, weight, positive]);
    loss(operands, &inputs, reduction, LOGITS, output, of_logit)
}

operator! { training:
    aclnnBinaryCrossEntropyWithLogitsBackwardGetWorkspaceSize,
    aclnnBinaryCrossEntropyWithLogitsBackward(
    d_output, input, target, weight, positive, reduction, d_input
) |operands|
    let inputs = logits([input, target, weight, positive]);
    let inputs = (("gradOutput", d_output), &inputs[..]);
    gradient(operands, inputs, reduction, LOGITS, d_input, of_logit_slope)
}

operator! { training:
    aclnnBinaryCrossEntropyWithLogitsTargetBackwardGetWorkspaceSize,
    aclnnBinaryCrossEntropyWithLogitsTargetBackward(
    d_output, input, target, weight, positive, reduction, d_target
) |operands|
    let config = state::config()?;
    ensure!(config.has_bf16(); "{} does not have this operator", config.soc);
    let inputs = logits([input, target, weight, positive]);
    let inputs = (("gradOutput", d_output), &inputs[..]);
    gradient(operands, inputs, reduction, TARGETS, d_target, of_target_slope)
}
