//! Causal attention with grouped queries: the sites of attention without caps and sinks.

use std::sync::Arc;

use burn::module::Param;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

use crate::layers::cache::Seen;
use crate::layers::scores::{Scoring, composed};

/// The scoring of keys by queries.
pub(crate) struct Scores {
    /// The factor of the products of queries and keys.
    pub(crate) scale: f64,
    /// The limit of the scaled products, if there is one.
    pub(crate) softcap: Option<f64>,
    /// The number of keys that a query sees, if some are hidden: its own and the nearest before it.
    pub(crate) window: Option<usize>,
    /// The sink of each query head, in architectures that have them.
    pub(crate) sinks: Option<Param<Tensor<1>>>,
    /// The lengths of the documents of all sequences, if a query sees keys of its own document alone.
    pub(crate) documents: Option<Arc<[usize]>>,
}

/// Returns the attention of the queries `q` to the keys that they see, without a cap.
pub(crate) fn attend(q: Tensor<4>, seen: Seen, scores: &Scores) -> Tensor<4> {
    let (k, v, scale) = (seen.keys, seen.values, scores.scale);
    if let Some(documents) = &scores.documents {
        return match scores.window {
            None => packed_causal_attention(q, k, v, scale, documents),
            Some(window) => packed_sliding_attention(q, k, v, scale, window, documents),
        };
    }
    match (scores.window, seen.lengths) {
        (None, None) => causal_attention(q, k, v, scale),
        (Some(window), None) => sliding_attention(q, k, v, scale, window),
        (None, Some(lengths)) => padded_causal_attention(q, k, v, scale, &lengths),
        (Some(window), Some(lengths)) => padded_sliding_attention(q, k, v, scale, window, &lengths),
    }
}

/// Returns the attention of each query to the keys at its own position and before it. `q` is `[b, s, hq, d]`, and `k`
/// and `v` are `[b, t, hk, d]`. The last query is at the last key.
#[fused_kernel("npu_fused_attention", mask = causal, layout = bsnd, layer = "causal_attention")]
pub fn causal_attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, scale: f64) -> Tensor<4> {
    composed(q, k, v, Scoring::scaled(scale))
}

/// Returns the attention of each query to the `window_size` nearest keys up to its own position. Shapes are those of
/// [`causal_attention`].
#[fused_kernel("npu_fused_attention", mask = causal, window = sliding, layout = bsnd, layer = "sliding_attention")]
pub fn sliding_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    scale: f64,
    window_size: usize,
) -> Tensor<4> {
    let scoring = Scoring {
        window: Some(window_size),
        ..Scoring::scaled(scale)
    };
    composed(q, k, v, scoring)
}

/// Returns the [`causal_attention`] of sequences of which only the last keys are seen, as many as `lengths` holds. The
/// result of a query before them is zero.
#[fused_kernel("npu_fused_attention", mask = causal, lengths = left_padded, layout = bsnd, layer = "padded_causal_attention")]
pub fn padded_causal_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    scale: f64,
    lengths: &[usize],
) -> Tensor<4> {
    let scoring = Scoring {
        lengths: Some(lengths),
        ..Scoring::scaled(scale)
    };
    composed(q, k, v, scoring)
}

/// Returns the [`sliding_attention`] of sequences of which only the last keys are seen, as many as `lengths` holds. The
/// result of a query before them is zero.
#[fused_kernel(
    "npu_fused_attention",
    mask = causal,
    window = sliding,
    lengths = left_padded,
    layout = bsnd,
    layer = "padded_sliding_attention"
)]
pub fn padded_sliding_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    scale: f64,
    window_size: usize,
    lengths: &[usize],
) -> Tensor<4> {
    let scoring = Scoring {
        window: Some(window_size),
        lengths: Some(lengths),
        ..Scoring::scaled(scale)
    };
    composed(q, k, v, scoring)
}

/// Returns the [`causal_attention`] of sequences that are several documents, one after the other. `lengths` are those of
/// all documents, and a query sees keys of its own document alone.
#[fused_kernel("npu_fused_attention", mask = causal, lengths = packed, layout = bsnd, layer = "packed_causal_attention")]
pub fn packed_causal_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    scale: f64,
    lengths: &[usize],
) -> Tensor<4> {
    let scoring = Scoring {
        documents: Some(lengths),
        ..Scoring::scaled(scale)
    };
    composed(q, k, v, scoring)
}

/// Returns the [`sliding_attention`] of sequences that are several documents, one after the other. `lengths` are those of
/// all documents, and a query sees keys of its own document alone.
#[fused_kernel(
    "npu_fused_attention",
    mask = causal,
    window = sliding,
    lengths = packed,
    layout = bsnd,
    layer = "packed_sliding_attention"
)]
pub fn packed_sliding_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    scale: f64,
    window_size: usize,
    lengths: &[usize],
) -> Tensor<4> {
    let scoring = Scoring {
        window: Some(window_size),
        documents: Some(lengths),
        ..Scoring::scaled(scale)
    };
    composed(q, k, v, scoring)
}
