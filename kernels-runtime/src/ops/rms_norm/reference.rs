use super::{Inputs, Settings};
use crate::kernel::rounded;
use crate::ops::operands::{Facts, checked};
use crate::ops::{compute_dtype, mean, same_dtype_as};
use crate::semantics::{Gating, RmsNormKey, Rounding};
use burn::tensor::{Tensor, activation};

/// Computes RMSNorm with plain tensor operations, on any backend: the definition that kernels are
/// verified against.
///
/// Half types are computed in f32 and rounded as `key` states. The result has the shape and dtype of
/// `x`. With Llama's rounding, `x̂` is rounded to the dtype, and so is its product with the weight. A
/// gate after the norm then multiplies in f32 before the last rounding, as in transformers'
/// Qwen3-Next. A gate before the norm multiplies in f32 without rounding, as in Mamba 2.
///
/// # Panics
/// Panics if the inputs or settings don't match the key, or if the shapes don't fit together.
#[track_caller]
pub fn reference<const D: usize>(
    inputs: Inputs<D>,
    settings: Settings,
    key: RmsNormKey,
) -> Tensor<D> {
    of_all(inputs, None, settings, key)
}

/// Computes RMSNorm as [`reference()`] does and adds a bias, `[n]`. Llama's rounding rounds before and after that.
///
/// # Panics
/// Panics as [`reference()`] does.
#[track_caller]
pub fn reference_with_bias<const D: usize>(
    inputs: Inputs<D>,
    bias: Tensor<1>,
    settings: Settings,
    key: RmsNormKey,
) -> Tensor<D> {
    of_all(inputs, Some(bias), settings, key)
}

#[track_caller]
pub(in crate::ops) fn of_all<const D: usize>(
    inputs: Inputs<D>,
    bias: Option<Tensor<1>>,
    settings: Settings,
    key: RmsNormKey,
) -> Tensor<D> {
    checked(super::Operands::with_later(
        Facts::from(&inputs.x),
        inputs.weight.as_ref().map(Facts::from),
        inputs.gate.as_ref().map(Facts::from),
        bias.as_ref().map(Facts::from),
        settings,
        key,
    ));
    if inputs.x.dims()[D - 1] == 0 {
        // Burn's operations don't repeat what has no elements. A gate has a gradient all the same.
        return match inputs.gate {
            Some(gate) => inputs.x * gate,
            None => inputs.x,
        };
    }
    let dtype = inputs.x.dtype();
    let compute = compute_dtype(dtype);
    let round = |tensor| match key.rounding {
        Rounding::Llama => same_dtype_as(same_dtype_as(tensor, dtype), compute),
        Rounding::Gemma => tensor,
    };
    let gate = |gate| activation::silu(same_dtype_as(gate, compute));

    let mut x = same_dtype_as(inputs.x, compute);
    let mut after = None;
    match (key.gating, inputs.gate.map(gate)) {
        (Gating::BeforeNorm, Some(gate)) => x = rounded(x * gate),
        (_, gate) => after = gate,
    }
    let mut y = round(normalise(x, settings));
    if let Some(weight) = inputs.weight {
        let gain = same_dtype_as(weight, compute).add_scalar(key.offset.value());
        y = rounded(y * gain.unsqueeze());
    }
    if let Some(gate) = after {
        y = round(y) * gate;
    }
    if let Some(bias) = bias {
        y = round(y) + same_dtype_as(bias, compute).unsqueeze();
    }
    same_dtype_as(y, dtype)
}

/// Computes `x / sqrt(mean(x²) + eps)` over the last axis, or over each of its groups.
fn normalise<const D: usize>(x: Tensor<D>, settings: Settings) -> Tensor<D> {
    match settings.group_size {
        None => over_last_axis(x, settings.eps),
        // An empty tensor has no groups to count in a reshape.
        Some(_) if x.shape().num_elements() == 0 => x,
        Some(size) => {
            let shape = x.shape();
            let groups = x.reshape([shape.num_elements() / size, size]);
            over_last_axis(groups, settings.eps).reshape(shape)
        }
    }
}

fn over_last_axis<const D: usize>(x: Tensor<D>, eps: f64) -> Tensor<D> {
    let mean_square = rounded(mean(x.clone().square()));
    rounded(x / mean_square.add_scalar(eps).sqrt())
}
