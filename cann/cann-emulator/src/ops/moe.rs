//! Moving tokens to experts and back, and the choice of experts.
//!
//! Slot `t·K + k` is choice k of token t. Rows of the permuted tokens are sorted by expert, and slots of one expert
//! keep their order.

use super::sum;

/// Returns the row of each slot: the inverse of a stable sort by expert.
pub(crate) fn rows_of_slots(experts: &[i64]) -> Vec<i64> {
    let mut slots: Vec<usize> = (0..experts.len()).collect();
    slots.sort_by_key(|slot| experts[*slot]);
    let mut rows = vec![0; experts.len()];
    for (row, slot) in slots.into_iter().enumerate() {
        rows[slot] = row as i64;
    }
    rows
}

/// Returns the first `kept` rows of the tokens in the order of their experts.
pub(crate) fn permute(
    tokens: &[f32],
    width: usize,
    rows: &[i64],
    choices: usize,
    kept: usize,
) -> Vec<f32> {
    let mut permuted = vec![0.0; kept * width];
    for (slot, row) in rows.iter().enumerate() {
        let (row, token) = (*row as usize, slot / choices);
        if row < kept {
            permuted[row * width..][..width].copy_from_slice(&tokens[token * width..][..width]);
        }
    }
    permuted
}

/// Computes `out[t] = Σₖ permuted[rows[t·K + k]] · probs[t, k]`, or the plain sum without `probs`. Rows beyond the end
/// count as zero.
pub(crate) fn unpermute(
    permuted: &[f32],
    width: usize,
    rows: &[i64],
    probs: Option<&[f32]>,
    choices: usize,
) -> Vec<f32> {
    let mut out = Vec::with_capacity(rows.len() / choices * width);
    let kept = permuted.len() / width;
    for (token, rows) in rows.chunks_exact(choices).enumerate() {
        for column in 0..width {
            let terms = rows
                .iter()
                .enumerate()
                .filter(|(_, row)| (**row as usize) < kept);
            let terms = terms.map(|(k, row)| {
                let value = permuted[*row as usize * width + column];
                probs.map_or(value, |probs| value * probs[token * choices + k])
            });
            // The sum is in order, as the kernel accumulates.
            out.push(terms.sum());
        }
    }
    out
}

/// Returns the gradients of [`unpermute`] for the permuted rows and for the probabilities.
pub(crate) fn unpermute_grad(
    permuted: &[f32],
    dout: &[f32],
    width: usize,
    rows: &[i64],
    probs: Option<&[f32]>,
    choices: usize,
    count: usize,
) -> (Vec<f32>, Vec<f32>) {
    let (mut dpermuted, mut dprobs) = (vec![0.0; count * width], Vec::with_capacity(rows.len()));
    for (slot, row) in rows.iter().enumerate() {
        let (row, dout) = (*row as usize, &dout[slot / choices * width..][..width]);
        if row >= count {
            dprobs.push(0.0);
            continue;
        }
        let prob = probs.map_or(1.0, |probs| probs[slot]);
        for (to, dout) in dpermuted[row * width..][..width].iter_mut().zip(dout) {
            *to = dout * prob;
        }
        if probs.is_some() {
            let values = &permuted[row * width..][..width];
            let products: Vec<f32> = values.iter().zip(dout).map(|(a, b)| a * b).collect();
            dprobs.push(sum(&products));
        }
    }
    (dpermuted, dprobs)
}

/// Computes the softmax of rows of `width` values.
pub(crate) fn softmax(x: &[f32], width: usize) -> Vec<f32> {
    let rows = x.chunks_exact(width.max(1));
    rows.flat_map(|row| {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let powers: Vec<f32> = row.iter().map(|x| (x - most).exp()).collect();
        let total = sum(&powers);
        powers.into_iter().map(move |power| power / total)
    })
    .collect()
}

/// Returns the `k` largest values of each row and their indices, largest first. Of equal values, the first comes
/// first.
pub(crate) fn top_k(x: &[f32], width: usize, k: usize) -> (Vec<f32>, Vec<i64>) {
    let (mut values, mut places) = (Vec::new(), Vec::new());
    for row in x.chunks_exact(width.max(1)) {
        let mut order: Vec<usize> = (0..width).collect();
        order.sort_by(|left, right| row[*right].total_cmp(&row[*left]));
        values.extend(order[..k].iter().map(|place| row[*place]));
        places.extend(order[..k].iter().map(|place| *place as i64));
    }
    (values, places)
}

/// The choice of experts by their scores, with a bias and within groups.
#[derive(Clone, Copy)]
pub(crate) struct Gating {
    pub(crate) experts: usize,
    pub(crate) k: usize,
    pub(crate) groups: usize,
    pub(crate) chosen_groups: usize,
    /// True if a group scores as the sum of its two best experts, and otherwise as its best.
    pub(crate) by_two: bool,
    /// True if scores are sigmoids, and otherwise a softmax.
    pub(crate) sigmoid: bool,
    /// True if the weights are divided by their sum.
    pub(crate) renormalise: bool,
    pub(crate) scale: f32,
    /// The number that is added to the sum of the weights.
    pub(crate) eps: f32,
}

impl Gating {
    /// Returns the weights of the chosen experts, their indices, and the scores of all experts. The bias changes only
    /// the choice.
    pub(crate) fn route(&self, x: &[f32], bias: Option<&[f32]>) -> (Vec<f32>, Vec<i64>, Vec<f32>) {
        let scores: Vec<f32> = match self.sigmoid {
            true => x.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect(),
            false => softmax(x, self.experts),
        };
        let (mut weights, mut places) = (Vec::new(), Vec::new());
        for row in scores.chunks_exact(self.experts) {
            let mut compared = row.to_vec();
            for (to, bias) in compared.iter_mut().zip(bias.unwrap_or_default()) {
                *to += bias;
            }
            self.exclude(&mut compared);
            let (_, chosen) = top_k(&compared, self.experts, self.k);
            let own: Vec<f32> = chosen.iter().map(|place| row[*place as usize]).collect();
            let divisor = match self.renormalise {
                true => sum(&own) + self.eps,
                false => 1.0,
            };
            weights.extend(own.iter().map(|weight| weight / divisor * self.scale));
            places.extend(chosen);
        }
        (weights, places, scores)
    }

    /// Makes the experts outside of the best groups the last choice.
    fn exclude(&self, compared: &mut [f32]) {
        let size = self.experts / self.groups;
        let score = |group: &[f32]| {
            let best = if self.by_two { 2 } else { 1 };
            top_k(group, size, best).0.iter().sum::<f32>()
        };
        let scores: Vec<f32> = compared.chunks_exact(size).map(score).collect();
        let (_, chosen) = top_k(&scores, self.groups, self.chosen_groups);
        for (group, members) in compared.chunks_exact_mut(size).enumerate() {
            if !chosen.contains(&(group as i64)) {
                members.fill(f32::NEG_INFINITY);
            }
        }
    }
}
