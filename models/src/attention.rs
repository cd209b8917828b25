//! Causal self-attention with grouped queries.

use burn::module::{Initializer, Module, Param};
use burn::tensor::activation::softmax;
use burn::tensor::{Bool, DType, Device, FloatDType, Tensor, TensorData};
use burn_kernels::fused_kernel;
use burn_kernels::nn::CacheError;
use burn_kernels::nn::Linear;

use crate::blocks::new_linear;
use crate::cache::{LayerCache, Seen};
use crate::config::{Architecture, ModelConfig};
use crate::rope::RotaryTables;

/// The score of masked positions.
///
/// Every query sees its own key, so the maximum of each row is finite, and so is the softmax. The exponential of
/// infinity is faster than one that underflows.
const MASKED: f32 = f32::NEG_INFINITY;

/// The norm of each query or key head.
#[derive(Module, Debug)]
struct HeadNorm {
    /// The weight of every head, `[width]`.
    weight: Param<Tensor<1>>,
}

/// Causal self-attention: every group of query heads shares one key and value head.
#[derive(Module, Debug)]
pub struct Attention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    /// The norm of each query head, in architectures that have one.
    q_norm: Option<HeadNorm>,
    k_norm: Option<HeadNorm>,
    #[module(skip)]
    heads: Heads,
}

#[derive(Debug, Clone, Copy)]
struct Heads {
    architecture: Architecture,
    query: usize,
    key_value: usize,
    width: usize,
    eps: f64,
}

impl Attention {
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Self {
        let heads = Heads {
            architecture: config.architecture,
            query: config.num_attention_heads,
            key_value: config.num_key_value_heads,
            width: config.head_dim,
            eps: config.rms_norm_eps,
        };
        let hidden = config.hidden_size;
        let from_hidden = |output| {
            let bias = config.attention_bias || config.qkv_bias;
            new_linear(config, [hidden, output], bias, device)
        };
        let norm = || {
            let weight = || Initializer::Ones.init([heads.width], device);
            let normalises = config.family().head_norms.is_some();
            normalises.then(|| HeadNorm { weight: weight() })
        };
        let mixed = heads.query * heads.width;
        Self {
            q_proj: from_hidden(mixed),
            k_proj: from_hidden(heads.key_value * heads.width),
            v_proj: from_hidden(heads.key_value * heads.width),
            o_proj: new_linear(config, [mixed, hidden], config.attention_bias, device),
            q_norm: norm(),
            k_norm: norm(),
            heads,
        }
    }

    /// Returns the attention of `x`, both `[b, s, hidden]`. With a window, a query sees that many keys: its own and the
    /// nearest before it. With a cache, it also sees the keys there, and its own are appended.
    pub(crate) fn forward(
        &self,
        x: Tensor<3>,
        tables: &RotaryTables,
        window: Option<usize>,
        cache: Option<LayerCache<'_>>,
    ) -> Result<Tensor<3>, CacheError> {
        let [batch, seq, _] = x.dims();
        let Heads {
            query, key_value, ..
        } = self.heads;
        let q = split(self.q_proj.forward(x.clone()), query);
        let k = split(self.k_proj.forward(x.clone()), key_value);
        let v = split(self.v_proj.forward(x), key_value);
        let (q, k) = self.prepare(q, k, tables);
        let seen = match cache {
            Some(mut cache) => cache.append(k, v)?,
            None => Seen {
                keys: k,
                values: v,
                lengths: None,
            },
        };
        let mixed = attend(q, seen, window);
        let mixed = mixed.reshape([batch, seq, query * self.heads.width]);
        Ok(self.o_proj.forward(mixed))
    }

    /// Normalises queries and keys, if the architecture does, and rotates them. Both are `[b, s, heads, width]`.
    fn prepare(&self, q: Tensor<4>, k: Tensor<4>, tables: &RotaryTables) -> (Tensor<4>, Tensor<4>) {
        let family = self.heads.architecture.family();
        let (cos, sin) = (tables.cos.clone(), tables.sin.clone());
        let norms = self.q_norm.as_ref().zip(self.k_norm.as_ref());
        if let Some((normalise, (q_norm, k_norm))) = family.head_norms.zip(norms) {
            let eps = self.heads.eps;
            return normalise(q, k, &q_norm.weight, &k_norm.weight, eps, cos, sin);
        }
        let rotate = family.layers.rotate;
        let (q, k) = rotate(q.swap_dims(1, 2), k.swap_dims(1, 2), cos, sin);
        (q.swap_dims(1, 2), k.swap_dims(1, 2))
    }
}

/// Reshapes `[b, s, heads · width]` to `[b, s, heads, width]`.
fn split(projected: Tensor<3>, heads: usize) -> Tensor<4> {
    let [batch, seq, columns] = projected.dims();
    projected.reshape([batch, seq, heads, columns / heads])
}

/// Returns the attention of the queries `q` to the keys that they see.
fn attend(q: Tensor<4>, seen: Seen, window: Option<usize>) -> Tensor<4> {
    let (k, v) = (seen.keys, seen.values);
    // A window as long as the sequence hides nothing.
    let window = window.filter(|&window| window < k.dims()[1]);
    match (window, seen.lengths) {
        (None, None) => causal_attention(q, k, v),
        (Some(window), None) => sliding_attention(q, k, v, window),
        (None, Some(lengths)) => padded_causal_attention(q, k, v, &lengths),
        (Some(window), Some(lengths)) => padded_sliding_attention(q, k, v, window, &lengths),
    }
}

/// Returns the attention of each query to the keys at its own position and before it. `q` is `[b, s, hq, d]`, and `k`
/// and `v` are `[b, t, hk, d]`. The last query is at the last key.
#[fused_kernel("npu_fused_attention", mask = causal, layout = bsnd)]
pub fn causal_attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    composed(q, k, v, None, None)
}

/// Returns the attention of each query to the `window_size` nearest keys up to its own position. Shapes are those of
/// [`causal_attention`].
#[fused_kernel("npu_fused_attention", mask = causal, window = sliding, layout = bsnd)]
pub fn sliding_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    window_size: usize,
) -> Tensor<4> {
    composed(q, k, v, Some(window_size), None)
}

/// Returns the [`causal_attention`] of sequences of which only the last keys are seen, as many as `lengths` holds. The
/// result of a query before them is zero.
#[fused_kernel("npu_fused_attention", mask = causal, lengths = left_padded, layout = bsnd)]
pub fn padded_causal_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    lengths: &[usize],
) -> Tensor<4> {
    composed(q, k, v, None, Some(lengths))
}

/// Returns the [`sliding_attention`] of sequences of which only the last keys are seen, as many as `lengths` holds. The
/// result of a query before them is zero.
#[fused_kernel(
    "npu_fused_attention",
    mask = causal,
    window = sliding,
    lengths = left_padded,
    layout = bsnd
)]
pub fn padded_sliding_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    window_size: usize,
    lengths: &[usize],
) -> Tensor<4> {
    composed(q, k, v, Some(window_size), Some(lengths))
}

/// Computes attention with the scores of all pairs in memory.
fn composed(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    window: Option<usize>,
    lengths: Option<&[usize]>,
) -> Tensor<4> {
    let [batch, seq, query, width] = q.dims();
    let [_, keys, key_value, _] = k.dims();
    let group = query / key_value;
    let [q, k, v] = [q, k, v].map(|heads| heads.swap_dims(1, 2));
    // The query heads of a group are adjacent, so they can be rows of one taller matrix. Keys and values are then
    // used unchanged and not repeated for each head.
    let q = q.reshape([batch, key_value, group * seq, width]) * (width as f64).powf(-0.5);
    let scores = q.matmul(k.swap_dims(2, 3));
    let mask = causal_mask([seq, keys], window, group, &scores.device());
    let weights = match lengths {
        None => masked_softmax(scores, mask),
        Some(lengths) => {
            let padding = Padding::new([seq, keys], lengths, group, &scores.device());
            padding.masked_softmax(scores, mask)
        }
    };
    let mixed = weights.matmul(v).reshape([batch, query, seq, width]);
    mixed.swap_dims(1, 2)
}

/// Computes the softmax over the last axis, in at least `f32`, of the positions that are not masked.
fn masked_softmax(scores: Tensor<4>, mask: Tensor<4, Bool>) -> Tensor<4> {
    let dtype = scores.dtype();
    let wide = match dtype {
        DType::F16 | DType::BF16 => scores.cast(FloatDType::F32),
        _ => scores,
    };
    softmax(wide.mask_fill(mask, MASKED), 3).cast(dtype)
}

/// Returns a mask `[1, 1, group · queries, keys]`, true where a query must not see a key. Its rows are those of the
/// folded queries in [`composed`]. The query at `i` sees the keys up to `i`, with a window only those after `i - window`.
/// The last query is at the last key.
fn causal_mask(
    [queries, keys]: [usize; 2],
    window: Option<usize>,
    group: usize,
    device: &Device,
) -> Tensor<4, Bool> {
    let before = keys as i64 - queries as i64;
    let shape = [queries, keys];
    let later = Tensor::<2, Bool>::tril_mask(shape, before, device);
    let hidden = match window {
        Some(window) => {
            let reached = before + 1 - window as i64;
            later.bool_or(Tensor::triu_mask(shape, reached, device))
        }
        None => later,
    };
    hidden.repeat(&[group, 1]).unsqueeze()
}

/// The positions before the first tokens of sequences.
struct Padding {
    /// True for the keys there, `[b, 1, 1, keys]`.
    keys: Tensor<4, Bool>,
    /// True for the queries there, `[b, 1, group · queries, 1]`. The last query is at the last key.
    queries: Tensor<4, Bool>,
}

impl Padding {
    /// Takes the number of last keys of each sequence that are not padding.
    fn new([queries, keys]: [usize; 2], lengths: &[usize], group: usize, device: &Device) -> Self {
        // The padding among the last positions of a sequence.
        let among = |last: usize| {
            let of_one = move |length: &usize| {
                let length = *length;
                (0..last).map(move |position| position + length < last)
            };
            let hidden: Vec<bool> = lengths.iter().flat_map(of_one).collect();
            let data = TensorData::new(hidden, [lengths.len(), 1, last, 1]);
            Tensor::<4, Bool>::from_data(data, device)
        };
        Self {
            keys: among(keys).swap_dims(2, 3),
            queries: among(queries).repeat(&[1, 1, group, 1]),
        }
    }

    /// Computes the [`masked_softmax`] with the padded keys masked, too. The weights of padded queries are zero.
    fn masked_softmax(self, scores: Tensor<4>, mask: Tensor<4, Bool>) -> Tensor<4> {
        let [batch, _, rows, keys] = scores.dims();
        let each = |mask: Tensor<4, Bool>| mask.expand([batch, 1, rows, keys]);
        let blind = each(self.queries);
        let hidden = each(mask).bool_or(each(self.keys));
        // A softmax of masked scores alone is not a number: those of padded queries are not masked, and their weights
        // are discarded.
        let hidden = hidden.bool_and(blind.clone().bool_not());
        let shape = scores.shape();
        let weights = masked_softmax(scores, hidden.expand(shape.clone()));
        weights.mask_fill(blind.expand(shape), 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(queries: usize, keys: usize, window: Option<usize>, group: usize) -> String {
        let mask = causal_mask([queries, keys], window, group, &Device::default());
        assert_eq!(mask.dims(), [1, 1, group * queries, keys]);
        let mask: Vec<bool> = mask.into_data().try_to_vec().unwrap();
        let rows = mask.chunks(keys).map(|row| {
            let marks = row.iter().map(|&hidden| if hidden { '.' } else { 'x' });
            marks.collect::<String>()
        });
        rows.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_query_sees_itself_and_what_its_window_reaches() {
        assert_eq!(seen(4, 4, None, 1), "x... xx.. xxx. xxxx");
        assert_eq!(seen(4, 4, Some(1), 1), "x... .x.. ..x. ...x");
        assert_eq!(seen(4, 4, Some(3), 1), "x... xx.. xxx. .xxx");
        assert_eq!(seen(3, 3, Some(2), 2), "x.. xx. .xx x.. xx. .xx");
        assert_eq!(seen(2, 4, None, 1), "xxx. xxxx");
        assert_eq!(seen(2, 4, Some(2), 1), ".xx. ..xx");
    }
}
