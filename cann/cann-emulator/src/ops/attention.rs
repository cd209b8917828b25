//! Attention and its gradient, one head at a time, in f32.

use super::matmul::{Factor, product_here};
use super::sum;
use crate::threads;

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
    /// Returns the number of heads that share keys and values.
    fn sharing(self) -> usize {
        self.heads / self.groups
    }

    /// Returns the number of rows of scores.
    fn rows(self) -> usize {
        self.batch * self.heads * self.queries
    }

    /// Returns about the nanoseconds of `products` products of each score's width, and of its exponential.
    fn nanoseconds(self, products: usize) -> usize {
        self.rows() * self.keys * (4 + products * self.width / 32)
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
    masked: impl Fn(usize, usize, usize) -> bool + Sync,
) -> Attended {
    let Sizes {
        queries,
        keys,
        width,
        value_width,
        ..
    } = sizes;
    let mut made = Attended {
        output: vec![0.0; sizes.rows() * value_width],
        most: vec![0.0; sizes.rows()],
        total: vec![0.0; sizes.rows()],
    };
    let heads = made
        .output
        .chunks_exact_mut((queries * value_width).max(1))
        .zip(made.most.chunks_exact_mut(queries.max(1)))
        .zip(made.total.chunks_exact_mut(queries.max(1)))
        .enumerate();
    threads::each(
        heads,
        sizes.nanoseconds(2),
        |(head, ((output, most), total))| {
            let group = head / sizes.sharing();
            let q = Factor::by_rows(part(q, head, queries * width));
            let k = Factor::by_columns(part(k, group, keys * width));
            let mut scores = product_here(q, k, [queries, width, keys]);
            let sink = sinks.map_or(f32::NEG_INFINITY, |sinks| sinks[head % sizes.heads]);
            for (query, row) in scores.chunks_exact_mut(keys).enumerate() {
                for (key, score) in row.iter_mut().enumerate() {
                    *score = if masked(head, query, key) {
                        f32::NEG_INFINITY
                    } else {
                        *score * scale
                    };
                }
                (most[query], total[query]) = shares(row, sink);
            }
            let v = Factor::by_rows(part(v, group, keys * value_width));
            let scores = Factor::by_rows(&scores);
            output.copy_from_slice(&product_here(scores, v, [queries, keys, value_width]));
        },
    );
    made
}

/// Turns a row of scores into its softmax. Returns what was subtracted from the scores, and the sum.
fn shares(row: &mut [f32], sink: f32) -> (f32, f32) {
    let greatest = row.iter().copied().fold(sink, f32::max);
    let shift = if greatest == f32::NEG_INFINITY {
        0.0
    } else {
        greatest
    };
    for score in &mut *row {
        // Hidden keys are many, and their exponential is known.
        *score = match *score == f32::NEG_INFINITY {
            true => 0.0,
            false => (*score - shift).exp(),
        };
    }
    let sum = sum(row) + (sink - shift).exp();
    let share = if sum > 0.0 { 1.0 / sum } else { 0.0 };
    row.iter_mut().for_each(|power| *power *= share);
    (shift, sum)
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
    qkv: (&[f32], &[f32], &[f32]),
    sinks: Option<&[f32]>,
    dy_and_y: (&[f32], &[f32]),
    statistics: (&[f32], &[f32]),
    sizes: Sizes,
    scale: f32,
    masked: impl Fn(usize, usize, usize) -> bool + Sync,
) -> Gradients {
    let (q, k, v) = qkv;
    let mut made = Gradients {
        q: vec![0.0; q.len()],
        k: vec![0.0; k.len()],
        v: vec![0.0; v.len()],
        sinks: vec![0.0; sizes.heads],
    };
    let mut of_sinks = vec![0.0; sizes.batch * sizes.heads];
    let backward = Backward {
        qkv,
        sinks,
        dy_and_y,
        statistics,
        sizes,
        scale,
    };
    let Sizes {
        queries,
        keys,
        width,
        value_width,
        ..
    } = sizes;
    // One thread adds up the gradients of keys and values over all heads that share them.
    let groups = made
        .k
        .chunks_exact_mut((keys * width).max(1))
        .zip(made.v.chunks_exact_mut((keys * value_width).max(1)))
        .zip(
            made.q
                .chunks_exact_mut((sizes.sharing() * queries * width).max(1)),
        )
        .zip(of_sinks.chunks_exact_mut(sizes.sharing()))
        .enumerate();
    threads::each(
        groups,
        sizes.nanoseconds(5),
        |(group, (((dk, dv), dq), dsinks))| {
            let heads = dq.chunks_exact_mut((queries * width).max(1)).zip(dsinks);
            for (own, (dq, dsink)) in heads.enumerate() {
                let head = group * sizes.sharing() + own;
                *dsink = backward.head(head, (dq, dk, dv), |query, key| masked(head, query, key));
            }
        },
    );
    for (head, dsink) in of_sinks.iter().enumerate() {
        made.sinks[head % sizes.heads] += dsink;
    }
    made
}

/// The inputs of the gradients.
struct Backward<'a> {
    qkv: (&'a [f32], &'a [f32], &'a [f32]),
    sinks: Option<&'a [f32]>,
    dy_and_y: (&'a [f32], &'a [f32]),
    statistics: (&'a [f32], &'a [f32]),
    sizes: Sizes,
    scale: f32,
}

impl Backward<'_> {
    /// Writes the gradient of a head's queries, and adds those of its keys and values. Returns that of its sink.
    fn head(
        &self,
        head: usize,
        (dq, dk, dv): (&mut [f32], &mut [f32], &mut [f32]),
        masked: impl Fn(usize, usize) -> bool,
    ) -> f32 {
        let Sizes {
            queries,
            keys,
            width,
            value_width,
            ..
        } = self.sizes;
        let group = head / self.sizes.sharing();
        let ((q, k, v), (dy, y)) = (self.qkv, self.dy_and_y);
        let (q, k) = (part(q, head, queries * width), part(k, group, keys * width));
        let v = part(v, group, keys * value_width);
        let dy = part(dy, head, queries * value_width);
        let y = part(y, head, queries * value_width);
        let (by_rows, by_columns) = (Factor::by_rows, Factor::by_columns);
        let mut shares = product_here(by_rows(q), by_columns(k), [queries, width, keys]);
        let mut dscores = product_here(by_rows(dy), by_columns(v), [queries, value_width, keys]);
        let mut dsink = 0.0;
        for query in 0..queries {
            let row = head * queries + query;
            let (most, total) = (self.statistics.0[row], self.statistics.1[row]);
            let along = inner(part(dy, query, value_width), part(y, query, value_width));
            if let Some(sinks) = self.sinks {
                dsink -= (sinks[head % self.sizes.heads] - most).exp() / total * along;
            }
            for key in 0..keys {
                let share = &mut shares[query * keys + key];
                *share = if masked(query, key) || total == 0.0 {
                    0.0
                } else {
                    (*share * self.scale - most).exp() / total
                };
                let dscore = &mut dscores[query * keys + key];
                *dscore = *share * (*dscore - along) * self.scale;
            }
        }
        dq.copy_from_slice(&product_here(
            by_rows(&dscores),
            by_rows(k),
            [queries, keys, width],
        ));
        let turned = by_columns(&dscores);
        add(dk, product_here(turned, by_rows(q), [keys, queries, width]));
        let turned = by_columns(&shares);
        add(
            dv,
            product_here(turned, by_rows(dy), [keys, queries, value_width]),
        );
        dsink
    }
}
