use super::{Inputs, Sizes};
use crate::kernel::rounded;
use crate::ops::zero::{empty, zero};
use crate::ops::{compute_dtype, same_dtype_as, sequences};
use crate::semantics::{CausalConv1dKey, ConvActivation};
use burn::tensor::Tensor;
use burn::tensor::activation::silu;

/// Computes the convolution with plain tensor operations, on any backend: the definition that kernels are verified
/// against. Returns the result and the last inputs of each sequence, in the dtype of `x`.
///
/// Half types are computed in f32, and the result is rounded once.
///
/// # Panics
/// Panics if the inputs don't match the key, or if the shapes don't fit together.
#[track_caller]
pub fn reference(inputs: Inputs, key: CausalConv1dKey) -> (Tensor<3>, Tensor<3>) {
    let sizes = inputs.check(key).sizes();
    let dtype = inputs.x.dtype();
    let compute = compute_dtype(dtype);
    let x = same_dtype_as(inputs.x, compute);
    let weight = same_dtype_as(inputs.weight, compute);
    let bias = inputs.bias.map(|bias| same_dtype_as(bias, compute));
    let state = match inputs.state {
        Some(state) => same_dtype_as(state, compute),
        None => Tensor::zeros(sizes.states(), (&x.device(), compute)),
    };
    let in_dtype = |(y, state)| (same_dtype_as(y, dtype), same_dtype_as(state, dtype));
    if sizes.result().contains(&0) {
        let mut all = zero(x) + zero(weight) + zero(state.clone());
        if let Some(bias) = bias {
            all = all + zero(bias);
        }
        return in_dtype((empty(all, sizes.result()), state));
    }
    let taps = Taps {
        weight,
        bias,
        activation: key.activation,
    };
    let rows = [sizes.batch, sizes.tokens];
    in_dtype(sequences::each(
        &inputs.lengths,
        rows,
        state,
        |take, state| taps.convolved(take.of(&x), state, sizes),
    ))
}

/// The parameters.
struct Taps {
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    activation: ConvActivation,
}

impl Taps {
    /// Computes sequences of one length.
    fn convolved(&self, x: Tensor<3>, state: Tensor<3>, sizes: Sizes) -> (Tensor<3>, Tensor<3>) {
        let tokens = x.dims()[1];
        let all = Tensor::cat(vec![state, x], 1);
        let of_channels = |tensor: Tensor<2>| tensor.reshape([1, 1, sizes.channels]);
        let mut sum = match &self.bias {
            Some(bias) => bias.clone().reshape([1, 1, sizes.channels]),
            None => Tensor::zeros([1, 1, 1], (&all.device(), all.dtype())),
        };
        for tap in 0..sizes.width {
            let weight = of_channels(self.weight.clone().narrow(1, tap, 1));
            sum = sum + rounded(all.clone().narrow(1, tap, tokens) * weight);
        }
        let y = match self.activation {
            ConvActivation::Silu => silu(rounded(sum)),
            ConvActivation::None => sum,
        };
        (y, all.narrow(1, tokens, sizes.width - 1))
    }
}
