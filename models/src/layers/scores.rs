//! Attention as plain operations: the bodies of all sites of attention.

use burn::tensor::activation::softmax;
use burn::tensor::{Bool, DType, Device, FloatDType, Tensor, TensorData};

/// The score of masked positions.
///
/// Every query sees its own key, so the maximum of each row is finite, and so is the softmax. The exponential of
/// infinity is faster than one that underflows.
const MASKED: f32 = f32::NEG_INFINITY;

/// The scoring of keys by queries, which see the keys at their own position and before it.
pub(crate) struct Scoring<'a> {
    /// The factor of the products of queries and keys.
    pub(crate) scale: f64,
    /// The limit `c` of the scaled products, which become `c · tanh(x / c)`.
    pub(crate) softcap: Option<f64>,
    /// The number of keys that a query sees: its own and the nearest before it.
    pub(crate) window: Option<usize>,
    /// The number of positions of a chunk, outside of which a query sees no key.
    pub(crate) chunk: Option<usize>,
    /// The number of last keys of each sequence that are not padding.
    pub(crate) lengths: Option<&'a [usize]>,
    /// The lengths of the documents of all sequences, if a query sees keys of its own document alone.
    pub(crate) documents: Option<&'a [usize]>,
    /// One more score for each query head in the sum of its softmax, `[hq]`.
    pub(crate) sinks: Option<Tensor<1>>,
}

impl Scoring<'_> {
    /// All keys up to the query's own, with a scale and nothing else.
    pub(crate) fn scaled(scale: f64) -> Self {
        Self {
            scale,
            softcap: None,
            window: None,
            chunk: None,
            lengths: None,
            documents: None,
            sinks: None,
        }
    }
}

/// Computes attention with the scores of all pairs in memory.
pub(crate) fn composed(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    scoring: Scoring<'_>,
) -> Tensor<4> {
    let [batch, seq, query, width] = q.dims();
    let [_, keys, key_value, _] = k.dims();
    let [_, _, _, value_width] = v.dims();
    let group = query / key_value;
    let [q, k, v] = [q, k, v].map(|heads| heads.swap_dims(1, 2));
    // The query heads of a group are adjacent, so they can be rows of one taller matrix. Keys and values are then
    // used unchanged and not repeated for each head.
    let q = q.reshape([batch, key_value, group * seq, width]) * scoring.scale;
    let scores = q.matmul(k.swap_dims(2, 3));
    let scores = match scoring.softcap {
        Some(cap) => capped(scores, cap),
        None => scores,
    };
    let mask = causal_mask([seq, keys], scoring.window, group, &scores.device());
    let mask = match scoring.chunk {
        Some(chunk) => {
            let chunks = Chunks {
                size: chunk,
                lengths: scoring.lengths,
            };
            mask.bool_or(chunks.mask([seq, keys], group, &scores.device()))
        }
        None => mask,
    };
    let mask = match scoring.documents {
        Some(documents) => {
            let device = scores.device();
            mask.bool_or(documents_mask(documents, [batch, seq], group, &device))
        }
        None => mask,
    };
    let sinks = scoring
        .sinks
        .map(|sinks| of_rows(sinks, [key_value, group, seq]));
    let weights = match scoring.lengths {
        None => masked_softmax(scores, mask, sinks),
        Some(lengths) => {
            let padding = Padding::new([seq, keys], lengths, group, &scores.device());
            padding.masked_softmax(scores, mask, sinks)
        }
    };
    let mixed = weights.matmul(v).reshape([batch, query, seq, value_width]);
    mixed.swap_dims(1, 2)
}

/// Replaces `x` by `c · tanh(x / c)`, where `c` is `softcap`.
pub(crate) fn capped<const D: usize>(x: Tensor<D>, softcap: f64) -> Tensor<D> {
    // Burn rounds the gradient of a division by a number to f32.
    (x * (1.0 / softcap)).tanh() * softcap
}

/// Returns one number for each row of the folded queries in [`composed`], `[1, hk, group · queries, 1]`, of one for each
/// head.
fn of_rows(heads: Tensor<1>, [key_value, group, queries]: [usize; 3]) -> Tensor<4> {
    let rows: Tensor<4> = heads.reshape([1, key_value, group, 1]);
    let rows = rows.expand([1, key_value, group, queries]);
    rows.reshape([1, key_value, group * queries, 1])
}

/// Computes the softmax over the last axis, in at least `f32`, of the positions that are not masked. A sink is one more
/// score in the sum of its row.
fn masked_softmax(scores: Tensor<4>, mask: Tensor<4, Bool>, sinks: Option<Tensor<4>>) -> Tensor<4> {
    let dtype = scores.dtype();
    let wide = match dtype {
        DType::F16 | DType::BF16 => scores.cast(FloatDType::F32),
        _ => scores,
    };
    let wide = wide.mask_fill(mask, MASKED);
    let weights = match sinks {
        Some(sinks) => {
            let [batch, heads, rows, keys] = wide.dims();
            let sinks = sinks.cast(FloatDType::from(wide.dtype()));
            let all = Tensor::cat(vec![wide, sinks.expand([batch, heads, rows, 1])], 3);
            softmax(all, 3).narrow(3, 0, keys)
        }
        None => softmax(wide, 3),
    };
    weights.cast(dtype)
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

/// The chunks of positions outside of which queries see no key.
struct Chunks<'a> {
    size: usize,
    /// The number of last keys of each sequence that are not padding. Chunks are counted from the first of them.
    lengths: Option<&'a [usize]>,
}

impl Chunks<'_> {
    /// Returns a mask `[b or 1, 1, group · queries, keys]`, true where query and key are in different chunks.
    fn mask(&self, [queries, keys]: [usize; 2], group: usize, device: &Device) -> Tensor<4, Bool> {
        let lengths = self.lengths.unwrap_or(&[]);
        let starts: Vec<usize> = match lengths {
            [] => vec![0],
            lengths => lengths.iter().map(|length| keys - length).collect(),
        };
        let before = keys - queries;
        let chunk = |position: usize, start: usize| position.saturating_sub(start) / self.size;
        let hidden = starts.iter().flat_map(|&start| {
            let rows = (before..keys).map(move |query| chunk(query, start));
            rows.flat_map(move |own| (0..keys).map(move |key| chunk(key, start) != own))
        });
        let data = TensorData::new(
            hidden.collect::<Vec<bool>>(),
            [starts.len(), 1, queries, keys],
        );
        Tensor::<4, Bool>::from_data(data, device).repeat(&[1, 1, group, 1])
    }
}

/// Returns a mask `[b, 1, group · s, s]`, true where query and key are in different documents.
fn documents_mask(
    lengths: &[usize],
    [batch, seq]: [usize; 2],
    group: usize,
    device: &Device,
) -> Tensor<4, Bool> {
    let numbers = lengths.iter().enumerate();
    let of_all: Vec<usize> = numbers
        .flat_map(|(number, length)| std::iter::repeat_n(number, *length))
        .collect();
    let hidden = of_all.chunks(seq).flat_map(|of_one| {
        let rows = of_one.iter();
        rows.flat_map(move |own| of_one.iter().map(move |other| own != other))
    });
    let data = TensorData::new(hidden.collect::<Vec<bool>>(), [batch, 1, seq, seq]);
    Tensor::<4, Bool>::from_data(data, device).repeat(&[1, 1, group, 1])
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
    fn masked_softmax(
        self,
        scores: Tensor<4>,
        mask: Tensor<4, Bool>,
        sinks: Option<Tensor<4>>,
    ) -> Tensor<4> {
        let [batch, _, rows, keys] = scores.dims();
        let each = |mask: Tensor<4, Bool>| mask.expand([batch, 1, rows, keys]);
        let blind = each(self.queries);
        let hidden = each(mask).bool_or(each(self.keys));
        // A softmax of masked scores alone is not a number: those of padded queries are not masked, and their weights
        // are discarded.
        let hidden = hidden.bool_and(blind.clone().bool_not());
        let shape = scores.shape();
        let weights = masked_softmax(scores, hidden.expand(shape.clone()), sinks);
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
    fn chunks_begin_at_the_first_token() {
        let seen = |queries, keys, lengths: Option<&[usize]>| {
            let chunks = Chunks { size: 2, lengths };
            let mask = chunks.mask([queries, keys], 1, &Device::default());
            let mask: Vec<bool> = mask.into_data().try_to_vec().unwrap();
            let mark = |row: &[bool]| -> String {
                let marks = row.iter().map(|&hidden| if hidden { '.' } else { 'x' });
                marks.collect()
            };
            mask.chunks(keys).map(mark).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(seen(3, 3, None), "xx. xx. ..x");
        assert_eq!(seen(1, 4, None), "..xx");
        assert_eq!(seen(2, 4, Some(&[4, 3])), "..xx ..xx xxx. ...x");
    }

    #[test]
    fn documents_do_not_see_each_other() {
        let mask = documents_mask(&[2, 1, 3], [2, 3], 1, &Device::default());
        let mask: Vec<bool> = mask.into_data().try_to_vec().unwrap();
        let rows = mask.chunks(3).map(|row| {
            let marks = row.iter().map(|&hidden| if hidden { '.' } else { 'x' });
            marks.collect::<String>()
        });
        assert_eq!(
            rows.collect::<Vec<_>>().join(" "),
            "xx. xx. ..x xxx xxx xxx"
        );
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
