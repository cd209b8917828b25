//! Attention and its gradient, one head at a time, in f32.

use super::matmul::product;
use super::sum;

/// The sizes of a call. Heads of queries share those of keys and values in groups.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    pub(crate) groups: usize,
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    pub(crate) width: usize,
    pub(crate) value_width: usize,
}

impl Sizes {
    /// Returns the position of each head of queries among the heads of all batches, and that of its keys.
    fn heads(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.batch * self.heads).map(move |head| {
            let (batch, own) = (head / self.heads, head % self.heads);
            (head, batch * self.groups + own * self.groups / self.heads)
        })
    }
}

/// Returns part number `place` of values in parts of `length`.
fn part(values: &[f32], place: usize, length: usize) -> &[f32] {
    &values[place * length..][..length]
}

fn inner(left: &[f32], right: &[f32]) -> f32 {
    let products = left.iter().zip(right).map(|(left, right)| left * right);
    sum(&products.collect::<Vec<_>>())
}

fn add(to: &mut [f32], values: Vec<f32>) {
    for (to, value) in to.iter_mut().zip(values) {
        *to += value;
    }
}

fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let mut turned = Vec::with_capacity(values.len());
    for column in 0..columns {
        turned.extend((0..rows).map(|row| values[row * columns + column]));
    }
    turned
}

/// The result of attention, with the maximum and sum of each row of scores.
pub(crate) struct Attended {
    pub(crate) output: Vec<f32>,
    pub(crate) most: Vec<f32>,
    pub(crate) total: Vec<f32>,
}

/// Computes `softmax(scale · q·kᵀ)·v`, all in `[batch, heads, tokens, width]`. Values may have another width.
/// `masked(head, query, key)` leaves a score out. A sink is one more score of each row of its head, without a value. A
/// row without scores is zero and has a sum of zero.
pub(crate) fn attention(
    (q, k, v): (&[f32], &[f32], &[f32]),
    sinks: Option<&[f32]>,
    sizes: Sizes,
    scale: f32,
    masked: impl Fn(usize, usize, usize) -> bool,
) -> Attended {
    let Sizes {
        queries,
        keys,
        width,
        value_width,
        ..
    } = sizes;
    let (mut output, mut most, mut total) = (Vec::with_capacity(q.len()), Vec::new(), Vec::new());
    for (head, group) in sizes.heads() {
        let kt = transposed(part(k, group, keys * width), keys, width);
        let mut scores = product(part(q, head, queries * width), &kt, queries, width, keys);
        for (query, row) in scores.chunks_exact_mut(keys).enumerate() {
            for (key, score) in row.iter_mut().enumerate() {
                *score = if masked(head, query, key) {
                    f32::NEG_INFINITY
                } else {
                    *score * scale
                };
            }
            let sink = sinks.map_or(f32::NEG_INFINITY, |sinks| sinks[head % sizes.heads]);
            let greatest = row.iter().copied().fold(sink, f32::max);
            let shift = if greatest == f32::NEG_INFINITY {
                0.0
            } else {
                greatest
            };
            row.iter_mut()
                .for_each(|score| *score = (*score - shift).exp());
            let sum = sum(row) + (sink - shift).exp();
            let share = if sum > 0.0 { 1.0 / sum } else { 0.0 };
            row.iter_mut().for_each(|power| *power *= share);
            most.push(shift);
            total.push(sum);
        }
        output.extend(product(
            &scores,
            part(v, group, keys * value_width),
            queries,
            keys,
            value_width,
        ));
    }
    Attended {
        output,
        most,
        total,
    }
}

/// The gradients of attention.
pub(crate) struct Gradients {
    pub(crate) q: Vec<f32>,
    pub(crate) k: Vec<f32>,
    pub(crate) v: Vec<f32>,
    /// The gradient of each head's sink. It is zero without sinks.
    pub(crate) sinks: Vec<f32>,
}

/// Returns the gradients from that of the result and from what [`attention`] returned.
pub(crate) fn attention_grad(
    (q, k, v): (&[f32], &[f32], &[f32]),
    sinks: Option<&[f32]>,
    (dy, y): (&[f32], &[f32]),
    (most, total): (&[f32], &[f32]),
    sizes: Sizes,
    scale: f32,
    masked: impl Fn(usize, usize, usize) -> bool,
) -> Gradients {
    let Sizes {
        queries,
        keys,
        width,
        value_width,
        ..
    } = sizes;
    let (mut dq, mut dk, mut dv) = (
        Vec::with_capacity(q.len()),
        vec![0.0; k.len()],
        vec![0.0; v.len()],
    );
    let mut dsinks = vec![0.0; sizes.heads];
    for (head, group) in sizes.heads() {
        let (q, k) = (part(q, head, queries * width), part(k, group, keys * width));
        let (dy, y) = (
            part(dy, head, queries * value_width),
            part(y, head, queries * value_width),
        );
        let mut shares = product(q, &transposed(k, keys, width), queries, width, keys);
        let vt = transposed(part(v, group, keys * value_width), keys, value_width);
        let mut dscores = product(dy, &vt, queries, value_width, keys);
        for query in 0..queries {
            let row = head * queries + query;
            let along = inner(part(dy, query, value_width), part(y, query, value_width));
            if let Some(sinks) = sinks {
                let own = head % sizes.heads;
                dsinks[own] -= (sinks[own] - most[row]).exp() / total[row] * along;
            }
            for key in 0..keys {
                let share = &mut shares[query * keys + key];
                *share = if masked(head, query, key) || total[row] == 0.0 {
                    0.0
                } else {
                    (*share * scale - most[row]).exp() / total[row]
                };
                let dscore = &mut dscores[query * keys + key];
                *dscore = *share * (*dscore - along) * scale;
            }
        }
        dq.extend(product(&dscores, k, queries, keys, width));
        let turned = transposed(&dscores, queries, keys);
        let place = group * keys * width..(group + 1) * keys * width;
        add(&mut dk[place], product(&turned, q, keys, queries, width));
        let turned = transposed(&shares, queries, keys);
        let place = group * keys * value_width..(group + 1) * keys * value_width;
        add(
            &mut dv[place],
            product(&turned, dy, keys, queries, value_width),
        );
    }
    Gradients {
        q: dq,
        k: dk,
        v: dv,
        sinks: dsinks,
    }
}
