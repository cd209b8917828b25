//! Gemma 2's own layers.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;
use burn_kernels::nn::Linear;

use crate::layers::attention::{self, Scores};
use crate::layers::cache::Seen;
use crate::layers::scores::{Scoring, composed};

pub use crate::layers::arrangements::Gemma2Layer;

/// Root-mean-square normalisation, `y = (1 + weight) · x / sqrt(mean(x²) + eps)`. The mean is over the last axis, and
/// everything is in at least `f32` and rounded to the dtype of `x` at the end.
#[fused_kernel("npu_fused_rmsnorm", offset = 1, rounding = gemma, layer = "RMSNormZeroCentered")]
#[derive(Module, Debug)]
pub struct Gemma2RmsNorm {
    pub(crate) weight: Param<Tensor<1>>,
    pub(crate) variance_epsilon: f64,
}

#[fused_kernel(
    "npu_fused_add_rmsnorm",
    method = forward_sum,
    weight = weight,
    eps = variance_epsilon,
    offset = 1,
    rounding = gemma,
    layer = "AddRMSNormZeroCentered"
)]
impl Gemma2RmsNorm {
    /// Adds `x` to the residual stream of the same shape and normalises the sum. Returns the normalised sum and the
    /// sum.
    pub fn forward_sum<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
    ) -> (Tensor<D>, Tensor<D>) {
        let sum = x + residual;
        (self.forward(sum.clone()), sum)
    }
}

/// Gated MLP without biases: `down(gelu(gate(x)) · up(x))`, from `[.., hidden]` to `[.., hidden]`, with the GELU by
/// `tanh`.
#[fused_kernel("npu_fused_swiglu", activation = gelu_tanh, layer = "GeGLUMLP")]
#[derive(Module, Debug)]
pub struct Gemma2Mlp {
    pub(crate) gate_proj: Linear,
    pub(crate) up_proj: Linear,
    pub(crate) down_proj: Linear,
}

/// Returns the attention of the queries `q` to the keys that they see, with a cap if the configuration has one.
pub(crate) fn attend(q: Tensor<4>, seen: Seen, scores: &Scores) -> Tensor<4> {
    let Some(softcap) = scores.softcap else {
        return attention::attend(q, seen, scores);
    };
    let (k, v, scale) = (seen.keys, seen.values, scores.scale);
    match (scores.window, seen.lengths) {
        (None, None) => capped_attention(q, k, v, scale, softcap),
        (Some(window), None) => capped_sliding_attention(q, k, v, scale, softcap, window),
        (None, Some(lengths)) => padded_capped_attention(q, k, v, scale, softcap, &lengths),
        (Some(window), Some(lengths)) => {
            padded_capped_sliding_attention(q, k, v, scale, softcap, window, &lengths)
        }
    }
}

/// Returns the attention of each query to the keys at its own position and before it, with scores `c · tanh(score / c)`,
/// where `c` is `softcap`. `q` is `[b, s, hq, d]`, and `k` and `v` are `[b, t, hk, d]`. The last query is at the last key.
#[fused_kernel("npu_fused_attention", mask = causal, cap = tanh, layout = bsnd, layer = "capped_attention")]
pub fn capped_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    scale: f64,
    softcap: f64,
) -> Tensor<4> {
    let scoring = Scoring {
        softcap: Some(softcap),
        ..Scoring::scaled(scale)
    };
    composed(q, k, v, scoring)
}

/// Returns the [`capped_attention`] of each query to the `window_size` nearest keys up to its own position.
#[fused_kernel(
    "npu_fused_attention",
    mask = causal,
    window = sliding,
    cap = tanh,
    layout = bsnd,
    layer = "capped_sliding_attention"
)]
pub fn capped_sliding_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    scale: f64,
    softcap: f64,
    window_size: usize,
) -> Tensor<4> {
    let scoring = Scoring {
        softcap: Some(softcap),
        window: Some(window_size),
        ..Scoring::scaled(scale)
    };
    composed(q, k, v, scoring)
}

/// Returns the [`capped_attention`] of sequences of which only the last keys are seen, as many as `lengths` holds. The
/// result of a query before them is zero.
#[fused_kernel(
    "npu_fused_attention",
    mask = causal,
    cap = tanh,
    lengths = left_padded,
    layout = bsnd,
    layer = "padded_capped_attention"
)]
pub fn padded_capped_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    scale: f64,
    softcap: f64,
    lengths: &[usize],
) -> Tensor<4> {
    let scoring = Scoring {
        softcap: Some(softcap),
        lengths: Some(lengths),
        ..Scoring::scaled(scale)
    };
    composed(q, k, v, scoring)
}

/// Returns the [`capped_sliding_attention`] of sequences of which only the last keys are seen, as many as `lengths`
/// holds. The result of a query before them is zero.
#[fused_kernel(
    "npu_fused_attention",
    mask = causal,
    window = sliding,
    cap = tanh,
    lengths = left_padded,
    layout = bsnd,
    layer = "padded_capped_sliding_attention"
)]
pub fn padded_capped_sliding_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    scale: f64,
    softcap: f64,
    window_size: usize,
    lengths: &[usize],
) -> Tensor<4> {
    let scoring = Scoring {
        softcap: Some(softcap),
        window: Some(window_size),
        lengths: Some(lengths),
        ..Scoring::scaled(scale)
    };
    composed(q, k, v, scoring)
}
