//! Tests of flash attention and its gradient against f64: layouts, dtypes, masks, groups of heads, and limits.

use crate::common::maths::{assert_close, noise, tensor, values, view};
use crate::common::{Scenario, device, platform, spec};
use burn_cann::ops::attention::{self, Axes, Ends, Mask, Settings};
use burn_cann::ops::{Kind, create};
use burn_cann::{DType, Layout, Spec, Stream, Tensor};

/// The sizes of a case.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    heads: usize,
    groups: usize,
    queries: usize,
    keys: usize,
    width: usize,
}

const SIZES: Sizes = Sizes {
    batch: 2,
    heads: 4,
    groups: 2,
    queries: 5,
    keys: 7,
    width: 6,
};

/// Returns the elements of `[batch, heads, tokens, width]` in another order of dimensions.
fn in_axes(
    axes: Axes,
    x: &[f64],
    heads: usize,
    tokens: usize,
    sizes: Sizes,
) -> (Vec<f64>, Vec<usize>) {
    let Sizes { batch, width, .. } = sizes;
    let plain = Layout::contiguous([batch, heads, tokens, width]).unwrap();
    let (order, shape): ([usize; 4], Vec<usize>) = match axes {
        Axes::Bnsd => ([0, 1, 2, 3], vec![batch, heads, tokens, width]),
        Axes::Bsnd => ([0, 2, 1, 3], vec![batch, tokens, heads, width]),
        Axes::Bsh => ([0, 2, 1, 3], vec![batch, tokens, heads * width]),
        Axes::Sbh => ([2, 0, 1, 3], vec![tokens, batch, heads * width]),
    };
    (view(x, &plain.permute(&order).unwrap()), shape)
}

/// Returns the elements in the order `[batch, heads, tokens, width]`.
fn by_head(axes: Axes, x: &[f64], heads: usize, tokens: usize, sizes: Sizes) -> Vec<f64> {
    let Sizes { batch, width, .. } = sizes;
    let (shape, order): ([usize; 4], [usize; 4]) = match axes {
        Axes::Bnsd => ([batch, heads, tokens, width], [0, 1, 2, 3]),
        Axes::Bsnd | Axes::Bsh => ([batch, tokens, heads, width], [0, 2, 1, 3]),
        Axes::Sbh => ([tokens, batch, heads, width], [1, 2, 0, 3]),
    };
    view(
        x,
        &Layout::contiguous(shape).unwrap().permute(&order).unwrap(),
    )
}

/// The gradients of queries, keys, values and sinks.
type Four = [Vec<f64>; 4];

/// Computes attention and its gradients, all as `[batch, heads, tokens, width]`. Sinks of -∞ have no effect.
fn reference(
    [q, k, v]: [&[f64]; 3],
    sinks: &[f64],
    dy: &[f64],
    sizes: Sizes,
    scale: f64,
    masked: &dyn Fn(usize, usize, usize) -> bool,
) -> (Vec<f64>, Four) {
    let Sizes {
        batch,
        heads,
        groups,
        queries,
        keys,
        width,
    } = sizes;
    let mut y = vec![0.0; q.len()];
    let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
    let mut dsinks = vec![0.0; heads];
    for head in 0..batch * heads {
        let group = head / heads * groups + head % heads / (heads / groups);
        for query in 0..queries {
            let (row, of) = ((head * queries + query) * width, |key: usize| {
                (group * keys + key) * width
            });
            let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
            let powers: Vec<f64> = (0..keys)
                .map(|key| {
                    let score = dot(&q[row..][..width], &k[of(key)..][..width]) * scale;
                    if masked(head, query, key) {
                        0.0
                    } else {
                        score.exp()
                    }
                })
                .collect();
            let sink = sinks[head % heads].exp();
            let sum: f64 = powers.iter().sum::<f64>() + sink;
            let shares: Vec<f64> = powers
                .iter()
                .map(|power| if sum > 0.0 { power / sum } else { 0.0 })
                .collect();
            for key in 0..keys {
                (0..width).for_each(|at| y[row + at] += shares[key] * v[of(key) + at]);
            }
            let along = dot(&dy[row..][..width], &y[row..][..width]);
            if sum > 0.0 {
                dsinks[head % heads] -= sink / sum * along;
            }
            for key in 0..keys {
                let dshare = dot(&dy[row..][..width], &v[of(key)..][..width]);
                let dscore = shares[key] * (dshare - along) * scale;
                for at in 0..width {
                    dq[row + at] += dscore * k[of(key) + at];
                    dk[of(key) + at] += dscore * q[row + at];
                    dv[of(key) + at] += shares[key] * dy[row + at];
                }
            }
        }
    }
    (y, [dq, dk, dv, dsinks])
}

/// The sinks of heads without any.
fn no_sinks(heads: usize) -> Vec<f64> {
    vec![f64::NEG_INFINITY; heads]
}

/// Runs both directions and compares.
fn compare(
    stream: &Stream,
    dtype: DType,
    axes: Axes,
    sizes: Sizes,
    mask: Mask<&Tensor>,
    masked: &dyn Fn(usize, usize, usize) -> bool,
) {
    let Sizes {
        batch,
        heads,
        groups,
        queries,
        keys,
        width,
    } = sizes;
    let put = |seed: u64, heads: usize, tokens: usize| {
        let (memory, shape) = in_axes(
            axes,
            &noise(batch * heads * tokens * width, seed),
            heads,
            tokens,
            sizes,
        );
        let (tensor, rounded) = tensor(stream, dtype, &memory, &shape);
        (tensor, by_head(axes, &rounded, heads, tokens, sizes))
    };
    let (q, q64) = put(1, heads, queries);
    let (k, k64) = put(2, groups, keys);
    let (v, v64) = put(3, groups, keys);
    let (dy, dy64) = put(4, heads, queries);
    let settings = Settings {
        axes,
        heads,
        scale: 0.6,
    };
    let found = attention::attention(stream, &q, &k, &v, mask, settings).unwrap();
    let all = [&q64[..], &k64, &v64];
    let (y, gradients) = reference(all, &no_sinks(heads), &dy64, sizes, 0.6, masked);
    let y_found = by_head(axes, &values(stream, &found.output), heads, queries, sizes);
    assert_close(&y_found, &y, dtype, 1e-6);
    assert_eq!(found.softmax_max.shape(), [batch, heads, queries, 8]);

    let found =
        attention::attention_backward(stream, &dy, [&q, &k, &v], mask, settings, &found).unwrap();
    // The gradients use the rounded result.
    let inside = crate::common::maths::epsilon(dtype).max(2e-6) * 2.0;
    for (found, expected, heads, tokens) in [
        (found.dq, &gradients[0], heads, queries),
        (found.dk, &gradients[1], groups, keys),
        (found.dv, &gradients[2], groups, keys),
    ] {
        let found = by_head(axes, &values(stream, &found), heads, tokens, sizes);
        assert_close(&found, expected, dtype, inside);
    }
}

#[test]
fn every_layout_and_type_with_shared_heads() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for axes in [Axes::Bnsd, Axes::Bsnd, Axes::Bsh, Axes::Sbh] {
                for groups in [1, 2, 4] {
                    let sizes = Sizes { groups, ..SIZES };
                    compare(&stream, dtype, axes, sizes, Mask::None, &|_, _, _| false);
                }
            }
        }
    });
}

#[test]
fn every_kind_of_mask() {
    Scenario::new().leaks().run(|cann| {
        let (_device, stream) = device(cann);
        let causal = attention::causal_mask(&stream).unwrap();
        let Sizes {
            batch,
            heads,
            queries,
            keys,
            ..
        } = SIZES;
        for (of, own) in [(batch, heads), (batch, 1), (1, 1)] {
            let count = of * own * queries * keys;
            // The first key is always visible.
            let bits: Vec<f64> = noise(count, 8)
                .iter()
                .enumerate()
                .map(|(at, x)| f64::from(*x > 0.2 && at % keys != 0))
                .collect();
            for dtype in [DType::Bool, DType::U8] {
                let (mask, _) = tensor(&stream, dtype, &bits, &[of, own, queries, keys]);
                let masked = |head: usize, query: usize, key: usize| {
                    let (batch, head) = ((head / heads).min(of - 1), (head % heads).min(own - 1));
                    bits[((batch * own + head) * queries + query) * keys + key] != 0.0
                };
                compare(
                    &stream,
                    DType::F32,
                    Axes::Bsnd,
                    SIZES,
                    Mask::Full(&mask),
                    &masked,
                );
                if (of, own) == (1, 1) {
                    let flat = mask.reshape([queries, keys]).unwrap();
                    compare(
                        &stream,
                        DType::F32,
                        Axes::Bnsd,
                        SIZES,
                        Mask::Full(&flat),
                        &masked,
                    );
                }
            }
        }
        for (queries, keys) in [(5, 5), (3, 8), (8, 3)] {
            let sizes = Sizes {
                queries,
                keys,
                ..SIZES
            };
            let from_first = |_, query, key| key > query;
            compare(
                &stream,
                DType::F32,
                Axes::Bnsd,
                sizes,
                Mask::FromFirst(&causal),
                &from_first,
            );
            // With fewer keys than queries, the first queries see no key and their results are zeros.
            let to_last = |_, query: usize, key: usize| key + queries > query + keys;
            compare(
                &stream,
                DType::F32,
                Axes::Bsh,
                sizes,
                Mask::ToLast(&causal),
                &to_last,
            );
            let ahead = keys as i64 - queries as i64;
            for (before, behind) in [(2, 0), (1, 1), (4, -1), (-1, 3)] {
                let outside = |_, query: usize, key: usize| {
                    let distance = query as i64 + ahead - key as i64;
                    distance > before || -distance > behind
                };
                let band = Mask::Band {
                    mask: &causal,
                    before,
                    behind,
                };
                compare(&stream, DType::F32, Axes::Bsnd, sizes, band, &outside);
            }
        }
        // Another mask of the same size is not the causal mask.
        let wrong = create::full(&stream, DType::Bool, [2048, 2048], false).unwrap();
        let (x, _) = tensor(&stream, DType::F32, &noise(24, 1), &[1, 1, 4, 6]);
        let settings = Settings {
            axes: Axes::Bnsd,
            heads: 1,
            scale: 1.0,
        };
        let mask = Mask::FromFirst(&wrong);
        let made = attention::attention(&stream, &x, &x, &x, mask, settings).unwrap();
        let error = made.output.to_vec::<f32>(&stream).unwrap_err();
        assert!(error.to_string().contains("above its diagonal"), "{error}");
        drop(made);
    });
}

/// The lengths of the queries and of the keys of sequences.
type Lengths<'a> = [&'a [usize]; 2];

fn ends(lengths: &[usize]) -> Vec<usize> {
    let ends = lengths.iter().scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    ends.collect()
}

/// Returns the sequence of a token, and its place there.
fn place(token: usize, ends: &[usize]) -> (usize, usize) {
    let sequence = ends.partition_point(|end| *end <= token);
    let start = sequence.checked_sub(1).map_or(0, |before| ends[before]);
    (sequence, token - start)
}

/// Runs both directions of sequences in one axis and compares. `masked(sequence, query, key)` hides a key of the
/// query's own sequence.
fn compare_varlen(
    stream: &Stream,
    dtype: DType,
    groups: usize,
    [queries, keys]: Lengths<'_>,
    mask: Mask<&Tensor>,
    masked: &dyn Fn(usize, usize, usize) -> bool,
) {
    let [q_ends, k_ends] = [queries, keys].map(ends);
    let sizes = Sizes {
        batch: 1,
        groups,
        queries: q_ends.last().copied().unwrap(),
        keys: k_ends.last().copied().unwrap(),
        ..SIZES
    };
    let Sizes { heads, width, .. } = sizes;
    let put = |seed: u64, heads: usize, tokens: usize| {
        let (x, rounded) = tensor(
            stream,
            dtype,
            &noise(tokens * heads * width, seed),
            &[tokens, heads, width],
        );
        (x, by_head(Axes::Bsnd, &rounded, heads, tokens, sizes))
    };
    let (q, q64) = put(1, heads, sizes.queries);
    let (k, k64) = put(2, groups, sizes.keys);
    let (v, v64) = put(3, groups, sizes.keys);
    let (dy, dy64) = put(4, heads, sizes.queries);
    let hidden = |_: usize, query: usize, key: usize| {
        let ((of_query, query), (of_key, key)) = (place(query, &q_ends), place(key, &k_ends));
        of_query != of_key || masked(of_query, query, key)
    };
    let all = [&q64[..], &k64, &v64];
    let (y, gradients) = reference(all, &no_sinks(heads), &dy64, sizes, 0.6, &hidden);
    let ends = Ends {
        queries: &q_ends,
        keys: &k_ends,
    };
    let tensors = [&q, &k, &v];
    let found = attention::attention_varlen(stream, tensors, mask, ends, 0.6).unwrap();
    assert_eq!(found.softmax_max.shape(), [sizes.queries, heads, 8]);
    let in_order =
        |x: &Tensor, heads, tokens| by_head(Axes::Bsnd, &values(stream, x), heads, tokens, sizes);
    assert_close(
        &in_order(&found.output, heads, sizes.queries),
        &y,
        dtype,
        1e-6,
    );
    let found = attention::attention_varlen_backward(stream, &dy, tensors, mask, ends, 0.6, &found)
        .unwrap();
    let inside = crate::common::maths::epsilon(dtype).max(2e-6) * 2.0;
    for (found, expected, heads, tokens) in [
        (found.dq, &gradients[0], heads, sizes.queries),
        (found.dk, &gradients[1], groups, sizes.keys),
        (found.dv, &gradients[2], groups, sizes.keys),
    ] {
        assert_close(&in_order(&found, heads, tokens), expected, dtype, inside);
    }
}

#[test]
fn sequences_of_several_lengths() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let causal = attention::causal_mask(&stream).unwrap();
        let lengths: Lengths<'_> = [&[3, 1, 0, 5], &[3, 2, 0, 7]];
        let ahead = [0, 1, 0, 2];
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for groups in [1, 2, 4] {
                compare_varlen(&stream, dtype, groups, lengths, Mask::None, &|_, _, _| {
                    false
                });
            }
            let to_last = |sequence: usize, query: usize, key: usize| key > query + ahead[sequence];
            compare_varlen(&stream, dtype, 2, lengths, Mask::ToLast(&causal), &to_last);
            let from_first = |_, query, key| key > query;
            let mask = Mask::FromFirst(&causal);
            compare_varlen(&stream, dtype, 2, lengths, mask, &from_first);
            let band = Mask::Band {
                mask: &causal,
                before: 1,
                behind: 1,
            };
            let outside = |sequence: usize, query: usize, key: usize| {
                (query + ahead[sequence]).abs_diff(key) > 1
            };
            compare_varlen(&stream, dtype, 2, lengths, band, &outside);
        }
    });
}

#[test]
fn limits_of_sequences_are_refused() {
    let a2 = platform("Ascend910B1");
    let x = spec(DType::F32, &[9, 4, 8]);
    let square = spec(DType::Bool, &[2048, 2048]);
    let checked = |q: &Spec, k: &Spec, mask, queries: &[usize], keys: &[usize]| {
        let ends = Ends { queries, keys };
        let found = attention::check_varlen(&a2, [q, k, k], mask, ends, 1.0);
        found.map_err(|no| no.kind())
    };
    let of = |mask, queries: &[usize], keys: &[usize]| {
        checked(&x, &x, mask, queries, keys).map(|results| results.statistics.shape().to_vec())
    };
    assert_eq!(of(Mask::None, &[4, 4, 9], &[2, 2, 9]), Ok(vec![9, 4, 8]));
    for (queries, keys) in [
        (&[4, 9][..], &[9][..]),
        (&[4, 8], &[4, 9]),
        (&[4, 10], &[4, 9]),
        (&[9, 4], &[4, 9]),
        (&[4, 9], &[0, 9]),
        (&[0, 9], &[4, 9]),
        (&[], &[]),
    ] {
        assert_eq!(
            of(Mask::None, queries, keys),
            Err(Kind::Value),
            "{queries:?} {keys:?}"
        );
    }
    let (fewer, more) = ([4, 9], [3, 9]);
    assert!(of(Mask::FromFirst(&square), &fewer, &more).is_ok());
    assert_eq!(of(Mask::ToLast(&square), &fewer, &more), Err(Kind::Value));
    let band = Mask::Band {
        mask: &square,
        before: -2,
        behind: 3,
    };
    assert!(of(band, &[5, 9], &[5, 9]).is_ok());
    assert_eq!(of(band, &[2, 9], &[2, 9]), Err(Kind::Value));
    let full = spec(DType::Bool, &[9, 9]);
    assert_eq!(of(Mask::Full(&full), &[9], &[9]), Err(Kind::Shape));
    assert_eq!(of(Mask::ToLast(&full), &[9], &[9]), Err(Kind::Shape));
    let many: Vec<usize> = (1..=2049).collect();
    let long = spec(DType::F32, &[2049, 1, 8]);
    let found = checked(&long, &long, Mask::None, &many, &many);
    assert_eq!(found.err(), Some(Kind::Shape));
    let long = spec(DType::F32, &[1_000_001, 1, 8]);
    let found = checked(&long, &long, Mask::None, &[1_000_001], &[1_000_001]);
    assert_eq!(found.err(), Some(Kind::Shape));
    for (q, k, kind) in [
        (spec(DType::F32, &[9, 32]), x.clone(), Kind::Shape),
        (spec(DType::F32, &[9, 4, 7]), x.clone(), Kind::Shape),
        (x.clone(), spec(DType::F32, &[9, 3, 8]), Kind::Shape),
        (x.clone(), spec(DType::F16, &[9, 4, 8]), Kind::Dtype),
        (spec(DType::F32, &[9, 257, 8]), x.clone(), Kind::Shape),
        (spec(DType::F32, &[9, 4, 769]), x.clone(), Kind::Shape),
    ] {
        assert_eq!(
            checked(&q, &k, Mask::None, &[9], &[9]).err(),
            Some(kind),
            "{q:?}"
        );
    }
    let statistics = spec(DType::F32, &[9, 4, 8]);
    let turned = Layout::strided([9, 4, 8], [8, 72, 1], 0).unwrap();
    let turned = Spec {
        layout: turned,
        ..statistics.clone()
    };
    let backward = |sum: &Spec| {
        let ends = Ends {
            queries: &[4, 9],
            keys: &[4, 9],
        };
        let given = [&x, &x, &statistics, sum];
        attention::check_varlen_backward(&a2, [&x, &x, &x], Mask::None, ends, 1.0, given)
            .map_err(|no| no.kind())
    };
    assert_eq!(backward(&statistics), Ok(()));
    assert_eq!(backward(&turned), Err(Kind::Layout));
    assert_eq!(backward(&spec(DType::F32, &[4, 9, 8])), Err(Kind::Shape));
}

#[test]
fn sinks_take_part_in_the_sum_of_their_head() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let causal = attention::causal_mask(&stream).unwrap();
        let Sizes {
            heads,
            groups,
            queries,
            keys,
            ..
        } = SIZES;
        for (dtype, axes) in [
            (DType::F16, Axes::Bnsd),
            (DType::BF16, Axes::Bsnd),
            (DType::BF16, Axes::Sbh),
        ] {
            let put = |seed: u64, heads: usize, tokens: usize| {
                let x = noise(SIZES.batch * heads * tokens * SIZES.width, seed);
                let (memory, shape) = in_axes(axes, &x, heads, tokens, SIZES);
                let (tensor, rounded) = tensor(&stream, dtype, &memory, &shape);
                (tensor, by_head(axes, &rounded, heads, tokens, SIZES))
            };
            let (q, q64) = put(1, heads, queries);
            let (k, k64) = put(2, groups, keys);
            let (v, v64) = put(3, groups, keys);
            let (dy, dy64) = put(4, heads, queries);
            // The last sink is above all scores.
            let (sinks, sinks64) = tensor(&stream, DType::F32, &[-0.5, 0.0, 1.0, 9.0], &[heads]);
            let settings = Settings {
                axes,
                heads,
                scale: 0.6,
            };
            let mask = Mask::ToLast(&causal);
            let masked = |_, query: usize, key: usize| key + queries > query + keys;
            let all = [&q64[..], &k64, &v64];
            let (y, gradients) = reference(all, &sinks64, &dy64, SIZES, 0.6, &masked);
            let tensors = [&q, &k, &v];
            let found =
                attention::attention_with_sinks(&stream, tensors, &sinks, mask, settings).unwrap();
            let y_found = by_head(axes, &values(&stream, &found.output), heads, queries, SIZES);
            assert_close(&y_found, &y, dtype, 1e-6);
            let (found, dsinks) = attention::attention_with_sinks_backward(
                &stream, &dy, tensors, &sinks, mask, settings, &found,
            )
            .unwrap();
            let inside = crate::common::maths::epsilon(dtype) * 2.0;
            for (found, expected, heads, tokens) in [
                (found.dq, &gradients[0], heads, queries),
                (found.dk, &gradients[1], groups, keys),
                (found.dv, &gradients[2], groups, keys),
            ] {
                let found = by_head(axes, &values(&stream, &found), heads, tokens, SIZES);
                assert_close(&found, expected, dtype, inside);
            }
            // The rounding of the result, which the gradient reads, shows in the sum over all queries.
            assert_close(&values(&stream, &dsinks), &gradients[3], dtype, inside);
        }
    });
}

#[test]
fn limits_of_sinks_are_refused() {
    let a2 = platform("Ascend910B1");
    let of = Settings {
        axes: Axes::Bnsd,
        heads: 4,
        scale: 1.0,
    };
    let kind = |platform, dtype, sinks: &Spec| {
        let q = spec(dtype, &[1, 4, 5, 8]);
        attention::check_with_sinks(platform, [&q, &q, &q], sinks, Mask::None, of)
            .map(drop)
            .map_err(|no| no.kind())
    };
    let sinks = spec(DType::F32, &[4]);
    let newer = burn_cann::Platform {
        version: burn_cann::Version::new("8.5.0"),
        ..a2.clone()
    };
    let older = burn_cann::Platform {
        version: burn_cann::Version::new("8.3.RC1"),
        ..a2
    };
    assert_eq!(kind(&newer, DType::F16, &sinks), Ok(()));
    assert_eq!(kind(&older, DType::F16, &sinks), Err(Kind::Platform));
    assert_eq!(kind(&newer, DType::F32, &sinks), Err(Kind::Dtype));
    let half = spec(DType::F16, &[4]);
    assert_eq!(kind(&newer, DType::F16, &half), Err(Kind::Dtype));
    let few = spec(DType::F32, &[3]);
    assert_eq!(kind(&newer, DType::F16, &few), Err(Kind::Shape));
    let apart = Spec {
        layout: Layout::strided([4], [2], 0).unwrap(),
        ..sinks
    };
    assert_eq!(kind(&newer, DType::F16, &apart), Err(Kind::Layout));
}

#[test]
fn views_are_read_where_they_lie() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let (x, _) = tensor(&stream, DType::F32, &noise(2 * 5 * 3 * 8, 1), &[2, 5, 3, 8]);
        let settings = |axes| Settings {
            axes,
            heads: 3,
            scale: 0.5,
        };
        let plain =
            attention::attention(&stream, &x, &x, &x, Mask::None, settings(Axes::Bsnd)).unwrap();
        let turned = x.permute(&[0, 2, 1, 3]).unwrap();
        let of = settings(Axes::Bnsd);
        let found =
            attention::attention(&stream, &turned, &turned, &turned, Mask::None, of).unwrap();
        let back = found.output.permute(&[0, 2, 1, 3]).unwrap();
        let back = burn_cann::ops::contiguous(&stream, &back).unwrap();
        assert_eq!(values(&stream, &back), values(&stream, &plain.output));
    });
}

#[test]
fn limits_are_refused() {
    let a2 = platform("Ascend910B1");
    let f32 = |shape: &[usize]| spec(DType::F32, shape);
    let settings = |axes, heads| Settings {
        axes,
        heads,
        scale: 1.0,
    };
    let kind = |q: &Spec, k: &Spec, mask: Mask<&Spec>, settings| {
        attention::check(&a2, q, k, k, mask, settings)
            .unwrap_err()
            .kind()
    };
    let (q, of) = (f32(&[1, 4, 5, 8]), settings(Axes::Bnsd, 4));
    assert_eq!(kind(&q, &f32(&[1, 3, 5, 8]), Mask::None, of), Kind::Shape);
    assert_eq!(kind(&q, &f32(&[1, 4, 5, 6]), Mask::None, of), Kind::Shape);
    assert_eq!(kind(&q, &f32(&[2, 4, 5, 8]), Mask::None, of), Kind::Shape);
    assert_eq!(
        kind(&q, &spec(DType::F16, &[1, 4, 5, 8]), Mask::None, of),
        Kind::Dtype
    );
    assert_eq!(
        kind(&q, &q, Mask::None, settings(Axes::Bnsd, 5)),
        Kind::Value
    );
    assert_eq!(
        kind(&q, &q, Mask::None, settings(Axes::Bsh, 4)),
        Kind::Shape
    );
    let wide = f32(&[1, 1, 5, 769]);
    assert_eq!(
        kind(&wide, &wide, Mask::None, settings(Axes::Bnsd, 1)),
        Kind::Shape
    );
    let many = f32(&[1, 257, 2, 8]);
    assert_eq!(
        kind(&many, &many, Mask::None, settings(Axes::Bnsd, 257)),
        Kind::Shape
    );
    let hidden = f32(&[1, 5, 10]);
    assert_eq!(
        kind(&hidden, &hidden, Mask::None, settings(Axes::Bsh, 3)),
        Kind::Shape
    );
    let mask = |dtype, shape: &[usize]| spec(dtype, shape);
    assert_eq!(
        kind(&q, &q, Mask::Full(&mask(DType::F32, &[5, 5])), of),
        Kind::Dtype
    );
    assert_eq!(
        kind(&q, &q, Mask::Full(&mask(DType::Bool, &[5, 4])), of),
        Kind::Shape
    );
    assert_eq!(
        kind(&q, &q, Mask::Full(&mask(DType::Bool, &[1, 2, 5, 5])), of),
        Kind::Shape
    );
    assert_eq!(
        kind(&q, &q, Mask::ToLast(&mask(DType::Bool, &[5, 5])), of),
        Kind::Shape
    );
    let square = mask(DType::Bool, &[2048, 2048]);
    let band = |before, behind| Mask::Band {
        mask: &square,
        before,
        behind,
    };
    for (before, behind) in [(-5, 9), (9, -5), (2, -3), (-2, 1)] {
        assert_eq!(kind(&q, &q, band(before, behind), of), Kind::Value);
    }
    assert!(attention::check(&a2, &q, &q, &q, band(-4, 4), of).is_ok());
    let with_values = |v: &[usize], of| {
        let found = attention::check(&a2, &q, &q, &f32(v), Mask::None, of);
        found
            .map(|results| results.output.shape().to_vec())
            .map_err(|no| no.kind())
    };
    assert_eq!(with_values(&[1, 4, 5, 3], of), Ok(vec![1, 4, 5, 3]));
    assert_eq!(with_values(&[1, 4, 5, 9], of), Err(Kind::Shape));
    assert_eq!(with_values(&[1, 4, 6, 8], of), Err(Kind::Shape));
    let nan = Settings {
        scale: f64::NAN,
        ..of
    };
    assert_eq!(kind(&q, &q, Mask::None, nan), Kind::Value);
    let statistics = f32(&[1, 4, 5, 8]);
    let backward = |dy: &Spec, most: &Spec| {
        let given = [dy, &q, most, &statistics];
        attention::check_backward(&a2, [&q, &q, &q], Mask::None, of, given).map_err(|no| no.kind())
    };
    assert_eq!(backward(&q, &statistics), Ok(()));
    assert_eq!(backward(&f32(&[1, 4, 5, 7]), &statistics), Err(Kind::Shape));
    assert_eq!(
        backward(&q, &spec(DType::F16, &[1, 4, 5, 8])),
        Err(Kind::Dtype)
    );
}
