//! Losses of single answers that are desirable or not.

use super::numbers::{above_zero, from_zero, input, read_all, sigmoid};
use super::{Answers, Metric};
use crate::error::ModelError;
use burn::tensor::{Tensor, TensorData};

/// A loss of single answers, with its settings. The loss of a batch is the mean over its answers, of either kind.
///
/// `beta` must be above 0 and the weights at least 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnpairedLoss {
    /// `β`, 0.1 in TRL and LLaMA-Factory.
    pub beta: f64,
    /// `w_D`, the weight of desirable answers, usually 1.
    pub desirable_weight: f64,
    /// `w_U`, the weight of undesirable answers, usually 1.
    pub undesirable_weight: f64,
    /// True for KTO, which compares with a baseline.
    pub has_baseline: bool,
}

/// Returns the baseline of KTO, `z = max(0, mean(S − S_ref))` of answers to other prompts than their own, `[1]`, without a
/// gradient: an estimate of the divergence of the two models.
///
/// # Errors
/// Returns [`ModelError::Input`] if there is no answer or no reference, or if tensors have different lengths.
pub fn kl_baseline(mismatched: &Answers) -> Result<Tensor<1>, ModelError> {
    if mismatched.count()? == 0 {
        return Err(input("mismatched", "there is no answer".into()));
    }
    require_reference(mismatched)?;
    Ok(mismatched.ratios().mean().clamp_min(0.0).detach())
}

fn require_reference(answers: &Answers) -> Result<(), ModelError> {
    match answers.reference {
        Some(_) => Ok(()),
        None => Err(input("reference", "this loss needs a reference".into())),
    }
}

impl UnpairedLoss {
    /// Checks the settings.
    ///
    /// # Errors
    /// Returns [`ModelError::Setting`] for a number out of its range.
    pub fn check(self) -> Result<(), ModelError> {
        above_zero("beta", self.beta)?;
        from_zero("desirable_weight", self.desirable_weight)?;
        from_zero("undesirable_weight", self.undesirable_weight)
    }

    /// Returns the loss of each answer, `[answers]`: `w_D·σ(−β·(r − z))` of those that are `desirable`, and `w_U·σ(β·(r − z))` of
    /// others (KTO; Ethayarajh et al., arXiv:2402.01306).
    ///
    /// `baseline` is `z`, `[1]`: see [`kl_baseline`]. Without a baseline `z` is 0, which is APO-zero for single answers
    /// (`apo_zero_unpaired` in TRL; D'Oosterlinck et al., arXiv:2408.06266).
    ///
    /// # Errors
    /// Returns an error as [`check`](Self::check) does, and [`ModelError::Input`] if tensors have different lengths, without a
    /// reference, or if a baseline is missing or the loss has none.
    pub fn per_answer(
        self,
        answers: &Answers,
        desirable: &[bool],
        baseline: Option<Tensor<1>>,
    ) -> Result<Tensor<1>, ModelError> {
        self.check()?;
        self.check_answers(answers, desirable)?;
        let ratios = answers.ratios();
        let like = |of: &dyn Fn(bool) -> f64| {
            let values: Vec<f64> = desirable.iter().map(|kind| of(*kind)).collect();
            let data = TensorData::new(values, [desirable.len()]);
            Tensor::<1>::from_data(data, (&ratios.device(), ratios.dtype()))
        };
        let weights = like(&|desirable| match desirable {
            true => self.desirable_weight,
            false => self.undesirable_weight,
        });
        let signs = like(&|desirable| if desirable { -self.beta } else { self.beta });
        let apart = match (baseline, self.has_baseline) {
            (Some(baseline), true) => ratios - baseline.detach(),
            (None, false) => ratios,
            (Some(_), false) => return Err(input("baseline", "this loss has no baseline".into())),
            (None, true) => return Err(input("baseline", "this loss needs a baseline".into())),
        };
        Ok(weights * sigmoid(apart * signs))
    }

    /// Returns TRL's metrics: `rewards/chosen` and `logps/chosen` of desirable answers, and the same of others as `rejected`.
    /// This reads the device.
    ///
    /// # Errors
    /// Returns an error as [`per_answer`](Self::per_answer) does, and if the device fails.
    pub fn metrics(self, answers: &Answers, desirable: &[bool]) -> Result<Vec<Metric>, ModelError> {
        self.check_answers(answers, desirable)?;
        let read = vec![answers.ratios() * self.beta, answers.policy.clone()];
        let read = read_all("policy", read)?;
        let (rewards, sums) = (&read[0], &read[1]);
        let of = |name, values: &[f64], kind: bool| {
            let all = values.iter().zip(desirable);
            let those: Vec<f64> = all.filter(|(_, d)| **d == kind).map(|(v, _)| *v).collect();
            Metric::of_values(name, &those)
        };
        Ok(vec![
            of("rewards/chosen", rewards, true),
            of("rewards/rejected", rewards, false),
            of("logps/chosen", sums, true),
            of("logps/rejected", sums, false),
        ])
    }

    fn check_answers(self, answers: &Answers, desirable: &[bool]) -> Result<(), ModelError> {
        let count = answers.count()?;
        require_reference(answers)?;
        match desirable.len() == count {
            true => Ok(()),
            false => Err(input(
                "desirable",
                format!("expected {count} labels, found {}", desirable.len()),
            )),
        }
    }
}
