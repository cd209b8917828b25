//! The loss of reward models.

use super::numbers::{from_zero, input, log_sigmoid, read};
use super::{LARGEST, LEAST, Metric};
use crate::error::ModelError;
use burn::tensor::Tensor;

/// The Bradley–Terry loss of scores: `−log σ(s_w − s_l − margin) + c·(s_w + s_l)²` of each pair (Ouyang et al.,
/// arXiv:2203.02155; margins: Touvron et al., arXiv:2307.09288; centring: Eisenstein et al., arXiv:2312.09244).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RewardLoss {
    /// `c`, at least 0. 0 leaves the mean of scores free. TRL's `center_rewards_coefficient`.
    pub centring: f64,
}

impl RewardLoss {
    /// Returns the loss of each pair, `[pairs]`, for the scores of chosen and rejected answers and, if pairs differ in
    /// strength, their margins, `[pairs]` each.
    ///
    /// # Errors
    /// Returns [`ModelError::Setting`] for a coefficient below 0, and [`ModelError::Input`] if the tensors have different
    /// lengths.
    pub fn per_pair(
        self,
        chosen: Tensor<1>,
        rejected: Tensor<1>,
        margins: Option<Tensor<1>>,
    ) -> Result<Tensor<1>, ModelError> {
        from_zero("centring", self.centring)?;
        let [count] = chosen.dims();
        for (name, tensor) in [("rejected", Some(&rejected)), ("margins", margins.as_ref())] {
            let found = tensor.map_or(count, |tensor| tensor.dims()[0]);
            if found != count {
                return Err(input(
                    name,
                    format!("expected {count} numbers, found {found}"),
                ));
            }
        }
        let apart = chosen.clone() - rejected.clone();
        let apart = match margins {
            Some(margins) => apart - margins.detach(),
            None => apart,
        };
        let loss = log_sigmoid(apart).neg();
        let sum = chosen + rejected;
        Ok(match self.centring {
            0.0 => loss,
            coefficient => loss + sum.clone() * sum * coefficient,
        })
    }

    /// Returns the metrics that TRL logs, for the scores of chosen and rejected answers, `[pairs]` each: `accuracy`,
    /// the part of pairs in the right order, `margin`, the mean difference, and `min_reward`, `mean_reward` and
    /// `max_reward` of all answers. This reads the device.
    ///
    /// # Errors
    /// Returns [`ModelError::Input`] if the device fails.
    pub fn metrics(chosen: Tensor<1>, rejected: Tensor<1>) -> Result<Vec<Metric>, ModelError> {
        let (chosen, rejected) = (read("chosen", chosen)?, read("rejected", rejected)?);
        let pairs = || chosen.iter().zip(&rejected);
        let right: Vec<f64> = pairs().map(|(w, l)| f64::from(u8::from(w > l))).collect();
        let apart: Vec<f64> = pairs().map(|(w, l)| w - l).collect();
        let all: Vec<f64> = chosen.iter().chain(&rejected).copied().collect();
        let one = |name, sum| Metric {
            name,
            sum,
            count: 1.0,
        };
        Ok(vec![
            Metric::of_values("accuracy", &right),
            Metric::of_values("margin", &apart),
            Metric::of_values("mean_reward", &all),
            one(LEAST, all.iter().copied().fold(f64::INFINITY, f64::min)),
            one(
                LARGEST,
                all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ),
        ])
    }
}
