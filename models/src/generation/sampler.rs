//! The choice of the next token from logits.

use std::cmp::Ordering;

use super::random::SplitMix64;
use super::{Generation, Sampling};

/// A token and its logit.
type Candidate = (u32, f64);

impl Generation {
    /// Returns the tokens that these settings choose from after a text, each with its probability, in any order. Without
    /// sampling, that is one token.
    ///
    /// `logits` are those of the next token, one for each of the vocabulary and at least one, and none is NaN. `text`
    /// holds the tokens of the prompt and those after it, for the penalty on repetitions.
    pub fn probabilities(&self, logits: &[f64], text: &[u32]) -> Vec<(u32, f64)> {
        let mut logits = logits.to_vec();
        penalise(&mut logits, text, self.repetition_penalty);
        let candidates = (0..).zip(logits);
        match &self.sampling {
            None => {
                let first =
                    candidates.reduce(|best, next| if next.1 > best.1 { next } else { best });
                first.map(|(token, _)| (token, 1.0)).into_iter().collect()
            }
            Some(sampling) => softmax(sampling.kept(candidates.collect())),
        }
    }

    /// Returns the next token.
    pub(super) fn choose(&self, logits: &[f64], text: &[u32], random: &mut SplitMix64) -> u32 {
        let probabilities = self.probabilities(logits, text);
        match self.sampling {
            None => probabilities[0].0,
            Some(_) => at_quantile(&probabilities, random.unit()),
        }
    }
}

/// Makes tokens that are in the text less probable.
fn penalise(logits: &mut [f64], text: &[u32], penalty: f64) {
    if penalty == 1.0 {
        return;
    }
    let mut seen = vec![false; logits.len()];
    for &token in text {
        let token = token as usize;
        if token < logits.len() && !std::mem::replace(&mut seen[token], true) {
            let logit = &mut logits[token];
            let changed = match *logit < 0.0 {
                true => *logit * penalty,
                false => *logit / penalty,
            };
            *logit = changed.clamp(f64::MIN, f64::MAX);
        }
    }
}

/// The larger logit first, and among equal ones the lower token.
fn descending(a: &Candidate, b: &Candidate) -> Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

impl Sampling {
    /// Returns the candidates that can be drawn, with the temperature applied.
    fn kept(&self, mut candidates: Vec<Candidate>) -> Vec<Candidate> {
        // The difference keeps the largest finite at any temperature.
        let largest = highest(&candidates);
        for (_, logit) in &mut candidates {
            *logit = (*logit - largest) / self.temperature;
        }
        if let Some(top_k) = self.top_k.filter(|&top_k| top_k < candidates.len()) {
            let (_, &mut (_, least), _) = candidates.select_nth_unstable_by(top_k - 1, descending);
            // As in transformers, all of equal ones are kept.
            candidates.retain(|&(_, logit)| logit >= least);
        }
        if self.top_p < 1.0 {
            candidates.sort_unstable_by(descending);
            candidates.truncate(nucleus(&candidates, self.top_p));
        }
        if self.min_p > 0.0 {
            let highest = highest(&candidates);
            candidates.retain(|&(_, logit)| (logit - highest).exp() >= self.min_p);
        }
        candidates
    }
}

/// Returns the number of first candidates, of those in descending order, whose probabilities sum to `top_p`: all but
/// those at the end that sum to at most `1 - top_p`. The first is always one.
fn nucleus(candidates: &[Candidate], top_p: f64) -> usize {
    let probabilities = softmax(candidates.to_vec());
    let mut left = 0.0;
    let ending = probabilities.iter().rev().take_while(|(_, probability)| {
        left += probability;
        left <= 1.0 - top_p
    });
    (candidates.len() - ending.count()).max(1)
}

fn highest(candidates: &[Candidate]) -> f64 {
    let logits = candidates.iter().map(|&(_, logit)| logit);
    logits.fold(f64::NEG_INFINITY, f64::max)
}

fn softmax(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    let highest = highest(&candidates);
    for (_, logit) in &mut candidates {
        *logit = (*logit - highest).exp();
    }
    let total: f64 = candidates.iter().map(|&(_, weight)| weight).sum();
    for (_, weight) in &mut candidates {
        *weight /= total;
    }
    candidates
}

/// Returns the token at quantile `unit`, which is in `0..1`.
fn at_quantile(probabilities: &[Candidate], unit: f64) -> u32 {
    let mut left = unit;
    let possible = probabilities
        .iter()
        .filter(|(_, probability)| *probability > 0.0);
    let mut last = 0;
    for &(token, probability) in possible {
        last = token;
        left -= probability;
        if left < 0.0 {
            break;
        }
    }
    // Rounding can leave a remainder at the end, which belongs to the last.
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_probabilities() {
        let probabilities = [(7, 0.5), (3, 0.0), (9, 0.5), (4, 0.0)];
        for (unit, token) in [(0.0, 7), (0.49, 7), (0.5, 9), (0.999, 9), (1.0, 9)] {
            assert_eq!(at_quantile(&probabilities, unit), token, "{unit}");
        }
    }
}
