//! Qwen3-Next's own layers: the convolution, the gated delta rule and the gated norm of its linear attention (Gated
//! DeltaNet; Yang, Kautz & Hatamizadeh, arXiv:2412.06464), and the norm and rotation of queries and keys. Its other
//! norms are Gemma 2's, its experts and its block Qwen2-MoE's.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;
use burn_kernels::ops::attention::Lengths;
use burn_kernels::ops::{causal_conv1d, gated_delta_rule as rule};
use burn_kernels::semantics::{CausalConv1dKey, GatedDeltaRuleKey, InitialState, SequenceLengths};

use crate::layers::gemma3::normalised;
use crate::layers::phi3::apply_rotary_pos_emb;

/// Root-mean-square normalisation with a gate, `y = (weight · round(x / sqrt(mean(x²) + eps))) · silu(gate)`. The
/// mean is over the last axis and in at least `f32`; `round` rounds to the dtype of `x`, and so do both products.
#[fused_kernel(
    "npu_fused_rmsnorm",
    offset = 0,
    rounding = llama,
    gating = after_norm,
    layer = "Qwen3NextRmsNormGated"
)]
#[derive(Module, Debug)]
pub struct Qwen3NextRmsNormGated {
    pub(crate) weight: Param<Tensor<1>>,
    pub(crate) variance_epsilon: f64,
}

/// Normalises each head of queries `[b, s, hq, d]` and keys `[b, s, hk, d]` like [`Gemma2RmsNorm`], with weights `[d]`,
/// and rotates its first elements like [`apply_rotary_pos_emb`].
///
/// [`Gemma2RmsNorm`]: crate::layers::gemma2::Gemma2RmsNorm
#[fused_kernel(
    "npu_fused_qk_norm_rope",
    norm = head,
    offset = 1,
    rounding = gemma,
    style = half,
    width = partial,
    layout = bsnd,
    layer = "norm_and_rotate"
)]
pub fn norm_and_rotate(
    q: Tensor<4>,
    k: Tensor<4>,
    q_weight: &Param<Tensor<1>>,
    k_weight: &Param<Tensor<1>>,
    eps: f64,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let (q, k) = (normalised(q, q_weight, eps), normalised(k, k_weight, eps));
    let (q, k) = apply_rotary_pos_emb(q, k, cos, sin);
    (q.swap_dims(1, 2), k.swap_dims(1, 2))
}

/// Returns the convolution of each channel of `x` `[b, s, c]` with its weights `[c, K]` over the token itself and those
/// before it, and `silu` of that. Before the first token are zeros.
#[fused_kernel("npu_fused_causal_conv1d", layer = "short_convolution")]
pub fn short_convolution(x: Tensor<3>, weight: Tensor<2>) -> Tensor<3> {
    convolved(x, weight, None, None).0
}

/// Returns the [`short_convolution`] behind the inputs `conv_state` `[b, K − 1, c]`, and the last inputs, of the same
/// shape.
#[fused_kernel("npu_fused_causal_conv1d", state = given, layer = "continued_short_convolution")]
pub fn continued_short_convolution(
    x: Tensor<3>,
    conv_state: Tensor<3>,
    weight: Tensor<2>,
) -> (Tensor<3>, Tensor<3>) {
    convolved(x, weight, Some(conv_state), None)
}

/// Returns the [`short_convolution`] of sequences that are several documents, one after the other. Before the first
/// token of each are zeros.
#[fused_kernel("npu_fused_causal_conv1d", lengths = packed, layer = "packed_short_convolution")]
pub fn packed_short_convolution(x: Tensor<3>, weight: Tensor<2>, lengths: &[usize]) -> Tensor<3> {
    convolved(x, weight, None, Some(lengths)).0
}

fn convolved(
    x: Tensor<3>,
    weight: Tensor<2>,
    state: Option<Tensor<3>>,
    lengths: Option<&[usize]>,
) -> (Tensor<3>, Tensor<3>) {
    let key = CausalConv1dKey {
        state: initial(state.is_some()),
        lengths: of_rows(lengths),
        ..CausalConv1dKey::GATED_DELTA_NET
    };
    let inputs = causal_conv1d::Inputs {
        x,
        weight,
        bias: None,
        state,
        lengths: lengths.map_or_else(Lengths::default, Lengths::new),
    };
    causal_conv1d::reference(inputs, key)
}

/// Returns the reading of each token from the state of its heads, and the last states. `q` and `k` are
/// `[b, s, hk, dk]`, `v` is `[b, s, hv, dv]`, `beta` is `[b, s, hv]`, and so is `g`, in at least `f32`. A state
/// `[dk, dv]` begins with zeros.
#[fused_kernel("npu_fused_gated_delta_rule", layer = "gated_delta_rule")]
pub fn gated_delta_rule(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    g: Tensor<3>,
    beta: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    ruled([q, k, v], [g, beta], None, None)
}

/// Returns the results of [`gated_delta_rule`] from the states `initial_state` `[b, hv, dk, dv]` on.
#[fused_kernel("npu_fused_gated_delta_rule", state = given, layer = "continued_gated_delta_rule")]
pub fn continued_gated_delta_rule(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    g: Tensor<3>,
    beta: Tensor<3>,
    initial_state: Tensor<4>,
) -> (Tensor<4>, Tensor<4>) {
    ruled([q, k, v], [g, beta], Some(initial_state), None)
}

/// Returns the results of [`gated_delta_rule`] of sequences that are several documents, one after the other. The states
/// of each begin with zeros.
#[fused_kernel("npu_fused_gated_delta_rule", lengths = packed, layer = "packed_gated_delta_rule")]
pub fn packed_gated_delta_rule(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    g: Tensor<3>,
    beta: Tensor<3>,
    lengths: &[usize],
) -> (Tensor<4>, Tensor<4>) {
    ruled([q, k, v], [g, beta], None, Some(lengths))
}

fn ruled(
    [q, k, v]: [Tensor<4>; 3],
    [g, beta]: [Tensor<3>; 2],
    state: Option<Tensor<4>>,
    lengths: Option<&[usize]>,
) -> (Tensor<4>, Tensor<4>) {
    let key = GatedDeltaRuleKey {
        state: initial(state.is_some()),
        lengths: of_rows(lengths),
        ..GatedDeltaRuleKey::GATED_DELTA_NET
    };
    let inputs = rule::Inputs {
        q,
        k,
        v,
        g: rule::Decays::Heads(g),
        beta,
        state,
        lengths: lengths.map_or_else(Lengths::default, Lengths::new),
    };
    rule::reference(inputs, rule::Settings::default(), key)
}

fn initial(given: bool) -> InitialState {
    match given {
        true => InitialState::Given,
        false => InitialState::None,
    }
}

fn of_rows(lengths: Option<&[usize]>) -> SequenceLengths {
    match lengths {
        Some(_) => SequenceLengths::Packed,
        None => SequenceLengths::None,
    }
}
