//! Losses of completions with rewards, of a batch that is a part of a step.

use super::batch::Rollout;
use super::preference::vector;
use burn::tensor::{DType, Int, Tensor, TensorData};
use kernels_models::preference::{Aggregation, PolicyLoss, Rollouts};

/// Returns the loss of a batch with this part of a step's completions, whose tokens are `tokens` in all, and the factor
/// by which its value becomes one that the step weighs by that part.
pub fn of_step(loss: PolicyLoss, share: f64, tokens: usize) -> (PolicyLoss, f64) {
    match loss.aggregation {
        Aggregation::StepTokens(_) => {
            // A step whose completions are all left out has the loss 0.
            let aggregation = Aggregation::StepTokens(tokens.max(1));
            (
                PolicyLoss {
                    aggregation,
                    ..loss
                },
                1.0 / share,
            )
        }
        _ => (loss, 1.0),
    }
}

/// Returns log-probabilities of the tokens of completions, one after the other, as rows.
pub fn rollouts(
    lengths: &[usize],
    rollout: &Rollout,
    log_probs: Tensor<1>,
    reference: Option<&[f64]>,
) -> Rollouts {
    let (device, dtype) = (log_probs.device(), log_probs.dtype());
    let place = (&device, dtype);
    let rows = Rows::new(lengths, &rollout.counts);
    let shape = [lengths.len(), rows.longest];
    let indices = TensorData::new(rows.places.clone(), [rows.places.len()]);
    let indices = Tensor::<1, Int>::from_data(indices, (&device, DType::I64));
    let constant = |values: &[f64]| vector(rows.padded(values), place).reshape(shape);
    Rollouts {
        policy: log_probs.select(0, indices).reshape(shape),
        old: rollout.old.as_deref().map(constant),
        reference: reference.map(constant),
        mask: vector(rows.mask.clone(), place).reshape(shape),
        advantages: vector(rollout.advantages.clone(), place),
    }
}

/// The place of each token of rows of one length. Padding has that of the first token, and is masked. So are rows that don't
/// count.
struct Rows {
    longest: usize,
    places: Vec<i64>,
    mask: Vec<f64>,
}

impl Rows {
    fn new(lengths: &[usize], counts: &[bool]) -> Self {
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let (mut places, mut mask, mut done) = (Vec::new(), Vec::new(), 0);
        for (length, counts) in lengths.iter().zip(counts) {
            for at in 0..longest {
                let is_token = at < *length;
                places.push(if is_token { (done + at) as i64 } else { 0 });
                mask.push(f64::from(u8::from(is_token && *counts)));
            }
            done += length;
        }
        Self {
            longest,
            places,
            mask,
        }
    }

    fn padded(&self, values: &[f64]) -> Vec<f64> {
        let places = self.places.iter();
        places.map(|place| values[*place as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn tokens_become_rows() {
        let rollout = Rollout {
            advantages: vec![1.0, -1.0],
            counts: vec![true; 2],
            old: Some(vec![-1.0, -2.0, -3.0]),
            metrics: Vec::new(),
        };
        let device = Device::flex();
        let log_probs = vector(vec![-4.0, -5.0, -6.0], (&device, DType::F32));
        let rows = rollouts(&[1, 2], &rollout, log_probs, None);
        let values = |tensor: Tensor<2>| tensor.try_to_vec_as::<f64>().unwrap();
        assert_eq!(values(rows.policy), [-4.0, -4.0, -5.0, -6.0]);
        assert_eq!(values(rows.old.unwrap()), [-1.0, -1.0, -2.0, -3.0]);
        assert_eq!(values(rows.mask), [1.0, 0.0, 1.0, 1.0]);
        let rollout = Rollout {
            counts: vec![true, false],
            ..rollout
        };
        let log_probs = vector(vec![-4.0, -5.0, -6.0], (&device, DType::F32));
        let rows = rollouts(&[1, 2], &rollout, log_probs, None);
        assert_eq!(values(rows.mask), [1.0, 0.0, 0.0, 0.0]);
    }
}
