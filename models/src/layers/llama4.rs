//! The own layers of Llama 4's text models. Their norm and MLP are Llama's.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::activation::sigmoid;
use burn::tensor::{FloatDType, Tensor};
use burn_kernels::fused_kernel;

use crate::layers::attention::{self, Scores};
use crate::layers::cache::Seen;
use crate::layers::llama::LlamaMlp;
use crate::layers::scores::{Scoring, composed};
use crate::layers::wide::at_least_f32;

pub use crate::layers::arrangements::Llama4Layer;

/// The experts of a layer: `Σ p · down(silu(gate(x)) · up(x))` over the experts that a token is routed to with weight
/// `p`.
#[fused_kernel("npu_fused_moe", activation = silu, layout = matmul, layer = "Llama4Experts")]
#[derive(Module, Debug)]
pub struct Llama4Experts {
    /// The gate and up projections of every expert, `[E, hidden, 2 · width]`. The columns of gate come first.
    pub(crate) gate_up_proj: Param<Tensor<3>>,
    /// The down projections of every expert, `[E, width, hidden]`.
    pub(crate) down_proj: Param<Tensor<3>>,
}

/// A mixture of experts with a shared expert, which every token goes to. A routed expert takes the token multiplied by the
/// sigmoid of its logit.
///
/// No kernel has such a block, whose weights are factors of the experts' input and not of their results: the router is
/// plain operations. The experts and the shared expert have their kernels.
#[derive(Module, Debug)]
pub struct Llama4MoeBlock {
    pub(crate) router: Linear,
    pub(crate) experts: Llama4Experts,
    pub(crate) shared_expert: LlamaMlp,
    pub(crate) top_k: usize,
}

impl Llama4MoeBlock {
    /// Returns the block's output for `x`, both `[.., hidden]`, and the router's logits `[tokens, experts]`.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> (Tensor<D>, Tensor<2>) {
        let shape = x.shape();
        let hidden = shape[D - 1];
        let tokens: Tensor<2> = x.reshape([-1, hidden as i64]);
        let [count, _] = tokens.dims();
        let logits = self.router.forward(tokens.clone());
        let (chosen, indices) = logits.clone().topk_with_indices(self.top_k, 1);
        let dtype = chosen.dtype();
        let wide = at_least_f32(dtype);
        let weights: Tensor<3> = sigmoid(chosen.cast(wide)).cast(dtype).unsqueeze_dim(2);
        // Each token is one row for each of its experts, which adds nothing but one result.
        let pairs = count * self.top_k;
        let rows = tokens.clone().unsqueeze_dim::<3>(1) * weights;
        let rows = rows.reshape([pairs, hidden]);
        let whole = Tensor::ones([pairs, 1], (&rows.device(), dtype));
        let routed = self
            .experts
            .forward(rows, indices.reshape([pairs, 1]), whole);
        let routed = routed.reshape([count, self.top_k, hidden]).sum_dim(1);
        let out = self.shared_expert.forward(tokens) + routed.squeeze_dim(1);
        (out.reshape(shape), logits)
    }
}

/// Normalises the last axis of rotated queries or keys, `y = x / sqrt(mean(x²) + eps)`, in at least `f32`.
#[fused_kernel("npu_fused_rmsnorm", scale = none, layer = "l2_norm")]
pub fn l2_norm(x: Tensor<4>, eps: f64) -> Tensor<4> {
    let dtype = x.dtype();
    let x = x.cast(at_least_f32(dtype));
    let mean_square = x.clone().square().mean_dim(3);
    (x * (mean_square + eps).sqrt().recip()).cast(dtype)
}

/// Rotates `[b, heads, s, d]` with tables that have each angle twice, like the tables of other families.
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
    let (q, k) = (q.swap_dims(1, 2), k.swap_dims(1, 2));
    let (q, k) = apply_rotary_emb(q, k, once(cos), once(sin));
    (q.swap_dims(1, 2), k.swap_dims(1, 2))
}

/// Rotates queries `[b, s, hq, d]` and keys `[b, s, hk, d]` by position. Element `2i` of each head pairs with element
/// `2i + 1`. `cos` and `sin` are `[b or 1, s, d / 2]`, in the dtype that the rotation is computed in: at least `f32`.
#[fused_kernel("npu_fused_rope", style = interleaved, layout = bsnd, table = pairs, layer = "apply_rotary_emb")]
pub fn apply_rotary_emb(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let wide = FloatDType::from(cos.dtype());
    let each_pair = |table: Tensor<3>| -> Tensor<5> {
        let table: Tensor<4> = table.unsqueeze_dim(2);
        table.unsqueeze_dim(4)
    };
    let (cos, sin) = (each_pair(cos), each_pair(sin));
    let rotate = |x: Tensor<4>| {
        let (dtype, shape @ [batch, seq, heads, width]) = (x.dtype(), x.dims());
        let pairs: Tensor<5> = x.cast(wide).reshape([batch, seq, heads, width / 2, 2]);
        let [a, b] = [0, 1].map(|at| pairs.clone().narrow(4, at, 1));
        let first = a.clone() * cos.clone() - b.clone() * sin.clone();
        let second = b * cos.clone() + a * sin.clone();
        let rotated = Tensor::cat(vec![first, second], 4).reshape(shape);
        rotated.cast(dtype)
    };
    (rotate(q), rotate(k))
}

/// Returns the attention of the queries `q` to the keys that they see, in chunks if there is a window.
pub(crate) fn attend(q: Tensor<4>, seen: Seen, scores: &Scores) -> Tensor<4> {
    let Some(chunk) = scores.window else {
        return attention::attend(q, seen, scores);
    };
    let (k, v, scale) = (seen.keys, seen.values, scores.scale);
    match seen.lengths {
        None => chunked_attention(q, k, v, scale, chunk),
        Some(lengths) => padded_chunked_attention(q, k, v, scale, chunk, &lengths),
    }
}

/// Returns the attention of each query to the keys of its own chunk of `chunk_size` positions up to its own. `q` is
/// `[b, s, hq, d]`, and `k` and `v` are `[b, t, hk, d]`. The last query is at the last key.
#[fused_kernel("npu_fused_attention", mask = causal, window = chunked, layout = bsnd, layer = "chunked_attention")]
pub fn chunked_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    scale: f64,
    chunk_size: usize,
) -> Tensor<4> {
    let scoring = Scoring {
        chunk: Some(chunk_size),
        ..Scoring::scaled(scale)
    };
    composed(q, k, v, scoring)
}

/// Returns the [`chunked_attention`] of sequences of which only the last keys are seen, as many as `lengths` holds. Chunks
/// are counted from the first of these keys. The result of a query before them is zero.
#[fused_kernel(
    "npu_fused_attention",
    mask = causal,
    window = chunked,
    lengths = left_padded,
    layout = bsnd,
    layer = "padded_chunked_attention"
)]
pub fn padded_chunked_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    scale: f64,
    chunk_size: usize,
    lengths: &[usize],
) -> Tensor<4> {
    let scoring = Scoring {
        chunk: Some(chunk_size),
        lengths: Some(lengths),
        ..Scoring::scaled(scale)
    };
    composed(q, k, v, scoring)
}
