//! The cross-entropy of classes: the negative logarithm of the target's probability, and its gradient.

use super::sum;

/// The combination of the losses of rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    None,
    Mean,
    Sum,
}

/// The row's class with its weight, or none if the row is ignored.
pub(crate) type Choice = Option<(usize, f32)>;

/// Returns the logarithm of each probability of a row.
pub(crate) fn log_probabilities(logits: &[f32]) -> Vec<f32> {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = logits.iter().map(|x| (x - most).exp()).collect();
    let log = sum(&powers).ln();
    logits.iter().map(|x| x - most - log).collect()
}

/// Returns the loss of a row. A part of the target's share, `smoothing`, is spread over all classes.
pub(crate) fn loss(
    log_probabilities: &[f32],
    weights: &[f32],
    choice: Choice,
    smoothing: f32,
) -> f32 {
    let Some((class, weight)) = choice else {
        return 0.0;
    };
    let of_target = -weight * log_probabilities[class];
    if smoothing == 0.0 {
        return of_target;
    }
    let pairs = weights.iter().zip(log_probabilities);
    let terms: Vec<f32> = pairs.map(|(weight, log)| weight * log).collect();
    let share = smoothing / log_probabilities.len() as f32;
    (1.0 - smoothing) * of_target - share * sum(&terms)
}

/// Combines the losses of rows. The mean is over the weights of the rows that count.
pub(crate) fn reduce(losses: Vec<f32>, choices: &[Choice], reduction: Reduction) -> Vec<f32> {
    match reduction {
        Reduction::None => losses,
        Reduction::Sum => vec![sum(&losses)],
        Reduction::Mean => vec![sum(&losses) / total(choices)],
    }
}

/// Returns the sum of the weights of the rows that count.
fn total(choices: &[Choice]) -> f32 {
    let weights: Vec<f32> = choices
        .iter()
        .flatten()
        .map(|(_, weight)| *weight)
        .collect();
    sum(&weights)
}

/// Returns the gradients of all logits. An ignored row is multiplied by zero, as CANN does, so what is not a number stays
/// so.
pub(crate) fn gradients(
    d_loss: &[f32],
    log_probabilities: &[f32],
    choices: &[Choice],
    reduction: Reduction,
) -> Vec<f32> {
    let classes = log_probabilities.len() / choices.len().max(1);
    let divisor = match reduction {
        Reduction::Mean => total(choices),
        Reduction::None | Reduction::Sum => 1.0,
    };
    let rows = log_probabilities.chunks_exact(classes.max(1)).zip(choices);
    let mut gradients = Vec::with_capacity(log_probabilities.len());
    for (row, (log_probabilities, choice)) in rows.enumerate() {
        let d_loss = match reduction {
            Reduction::None => d_loss[row],
            Reduction::Mean | Reduction::Sum => d_loss[0],
        };
        let factor = choice.map_or(0.0, |(_, weight)| d_loss * weight / divisor);
        let target = choice.map(|(class, _)| class);
        let classes = log_probabilities.iter().enumerate();
        gradients.extend(classes.map(|(class, log)| {
            let one = if target == Some(class) { 1.0 } else { 0.0 };
            (log.exp() - one) * factor
        }));
    }
    gradients
}
