//! The text models of Gemma 3: Gemma 2's layers, with norms of query and key heads, and rotary frequencies of their own in
//! layers with a window.

use burn::module::Param;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

use crate::config::ScoreConfig;
use crate::family::{Defaults, Family, HeadNorms, Positions, Window};
use crate::gemma2::{self, Gemma2RmsNorm};
use crate::llama::{self, apply_rotary_pos_emb};

pub(crate) static FAMILY: Family = Family {
    class_name: "Gemma3ForCausalLM",
    model_type: "gemma3_text",
    head_norms: Some(HeadNorms {
        of_rows: false,
        apply: norm_and_rotate,
    }),
    scores: Some(ScoreConfig {
        query_pre_attn_scalar: 256.0,
        attn_logit_softcapping: None,
        final_logit_softcapping: None,
    }),
    positions: Positions {
        local_theta: Some(10_000.0),
        ..llama::FAMILY.positions
    },
    defaults: Defaults {
        rope_theta: 1_000_000.0,
        ..gemma2::FAMILY.defaults
    },
    window: Window {
        full_every: Some(6),
        pattern: true,
        ..gemma2::FAMILY.window
    },
    honours: &[
        "query_pre_attn_scalar",
        "final_logit_softcapping",
        "rope_local_base_freq",
    ],
    ..gemma2::FAMILY
};

/// Normalises each head of queries `[b, s, hq, d]` and keys `[b, s, hk, d]` like [`Gemma2RmsNorm`], with weights `[d]`,
/// and rotates it like [`apply_rotary_pos_emb`].
#[fused_kernel("npu_fused_qk_norm_rope", norm = head, offset = 1, rounding = gemma, style = half, layout = bsnd)]
pub fn norm_and_rotate(
    q: Tensor<4>,
    k: Tensor<4>,
    q_weight: &Param<Tensor<1>>,
    k_weight: &Param<Tensor<1>>,
    eps: f64,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let norm = |x: Tensor<4>, weight: &Param<Tensor<1>>| {
        let norm = Gemma2RmsNorm {
            weight: weight.clone(),
            variance_epsilon: eps,
        };
        norm.forward(x).swap_dims(1, 2)
    };
    let (q, k) = (norm(q, q_weight), norm(k, k_weight));
    let (q, k) = apply_rotary_pos_emb(q, k, cos, sin);
    (q.swap_dims(1, 2), k.swap_dims(1, 2))
}
