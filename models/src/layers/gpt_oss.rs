//! The own layers of gpt-oss. Its norm is OLMo 2's.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

use crate::layers::attention::{self, Scores};
use crate::layers::cache::Seen;
use crate::layers::scores::{Scoring, composed};

/// The experts of a layer: `Σ p · down(gate(x) · σ(1.702 · gate(x)) · (1 + up(x)))` over the experts that a token is routed
/// to with weight `p`. Gate is at most the limit, and up is between the limit and its negative. All projections have
/// biases.
#[fused_kernel(
    "npu_fused_moe",
    activation = quick_gelu,
    projections = interleaved,
    layout = matmul,
    clamp = limit,
    up_offset = 1,
    bias = all,
    layer = "GptOssExperts"
)]
#[derive(Module, Debug)]
pub struct GptOssExperts {
    /// The gate and up projections of every expert, `[E, hidden, 2 · width]`, in turn.
    pub(crate) gate_up_proj: Param<Tensor<3>>,
    pub(crate) gate_up_proj_bias: Param<Tensor<2>>,
    /// The down projections of every expert, `[E, width, hidden]`.
    pub(crate) down_proj: Param<Tensor<3>>,
    pub(crate) down_proj_bias: Param<Tensor<2>>,
    pub(crate) swiglu_limit: f64,
}

/// A mixture of experts whose weights for a token are the softmax of the logits of its experts.
#[fused_kernel("npu_fused_moe", part = block, scoring = softmax_of_chosen, layer = "MegaBlocksMoeMLP")]
#[derive(Module, Debug)]
pub struct GptOssSparseMoeBlock {
    pub(crate) router: Linear,
    pub(crate) experts: GptOssExperts,
    pub(crate) top_k: usize,
}

/// Rotates with tables that have each angle twice, like the tables of other families.
pub(crate) fn rotate(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let once = |table: Tensor<3>| {
        let [_, _, width] = table.dims();
        table.narrow(2, 0, width / 2)
    };
    apply_rotary_pos_emb(q, k, once(cos), once(sin))
}

/// Rotates queries `[b, hq, s, d]` and keys `[b, hk, s, d]` by position. Element `i` of the first half of each head
/// pairs with element `i` of the second half. `cos` and `sin` are `[b or 1, s, d / 2]`.
#[fused_kernel("npu_fused_rope", style = half, table = pairs, layer = "rotary_pos_emb")]
pub fn apply_rotary_pos_emb(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let cos = cos.unsqueeze_dim::<4>(1);
    let sin = sin.unsqueeze_dim::<4>(1);
    let rotate = |x: Tensor<4>| {
        let [_, _, _, width] = x.dims();
        let [first, second] = [0, width / 2].map(|at| x.clone().narrow(3, at, width / 2));
        Tensor::cat(
            vec![
                first.clone() * cos.clone() - second.clone() * sin.clone(),
                second * cos.clone() + first * sin.clone(),
            ],
            3,
        )
    };
    (rotate(q), rotate(k))
}

/// Returns the attention of the queries `q` to the keys that they see and to the sink of each head.
pub(crate) fn attend(q: Tensor<4>, seen: Seen, scores: &Scores) -> Tensor<4> {
    let Some(sinks) = &scores.sinks else {
        return attention::attend(q, seen, scores);
    };
    let (k, v, scale) = (seen.keys, seen.values, scores.scale);
    match (scores.window, seen.lengths) {
        (None, None) => attention_with_sinks(q, k, v, sinks, scale),
        (Some(window), None) => sliding_attention_with_sinks(q, k, v, sinks, scale, window),
        (None, Some(lengths)) => padded_attention_with_sinks(q, k, v, sinks, scale, &lengths),
        (Some(window), Some(lengths)) => {
            padded_sliding_attention_with_sinks(q, k, v, sinks, scale, window, &lengths)
        }
    }
}

/// Returns the attention of each query to the keys at its own position and before it, with one more score for each query
/// head in the sum of its softmax. `q` is `[b, s, hq, d]`, and `k` and `v` are `[b, t, hk, d]`. The last query is at the last
/// key.
#[fused_kernel("npu_fused_attention", mask = causal, sink = learned, layout = bsnd, layer = "attention_with_sinks")]
pub fn attention_with_sinks(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    sinks: &Param<Tensor<1>>,
    scale: f64,
) -> Tensor<4> {
    let scoring = Scoring {
        sinks: Some(sinks.val()),
        ..Scoring::scaled(scale)
    };
    composed(q, k, v, scoring)
}

/// Returns the [`attention_with_sinks`] of each query to the `window_size` nearest keys up to its own position.
#[fused_kernel(
    "npu_fused_attention",
    mask = causal,
    window = sliding,
    sink = learned,
    layout = bsnd,
    layer = "sliding_attention_with_sinks"
)]
pub fn sliding_attention_with_sinks(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    sinks: &Param<Tensor<1>>,
    scale: f64,
    window_size: usize,
) -> Tensor<4> {
    let scoring = Scoring {
        sinks: Some(sinks.val()),
        window: Some(window_size),
        ..Scoring::scaled(scale)
    };
    composed(q, k, v, scoring)
}

/// Returns the [`attention_with_sinks`] of sequences of which only the last keys are seen, as many as `lengths` holds. The
/// result of a query before them is zero.
#[fused_kernel(
    "npu_fused_attention",
    mask = causal,
    sink = learned,
    lengths = left_padded,
    layout = bsnd,
    layer = "padded_attention_with_sinks"
)]
pub fn padded_attention_with_sinks(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    sinks: &Param<Tensor<1>>,
    scale: f64,
    lengths: &[usize],
) -> Tensor<4> {
    let scoring = Scoring {
        sinks: Some(sinks.val()),
        lengths: Some(lengths),
        ..Scoring::scaled(scale)
    };
    composed(q, k, v, scoring)
}

/// Returns the [`sliding_attention_with_sinks`] of sequences of which only the last keys are seen, as many as `lengths`
/// holds. The result of a query before them is zero.
#[fused_kernel(
    "npu_fused_attention",
    mask = causal,
    window = sliding,
    sink = learned,
    lengths = left_padded,
    layout = bsnd,
    layer = "padded_sliding_attention_with_sinks"
)]
pub fn padded_sliding_attention_with_sinks(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    sinks: &Param<Tensor<1>>,
    scale: f64,
    window_size: usize,
    lengths: &[usize],
) -> Tensor<4> {
    let scoring = Scoring {
        sinks: Some(sinks.val()),
        window: Some(window_size),
        lengths: Some(lengths),
        ..Scoring::scaled(scale)
    };
    composed(q, k, v, scoring)
}
