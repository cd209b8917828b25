//! Losses of preferences, rewards and teachers, as functions of log-probabilities.
//!
//! `S` is the sum of the log-probabilities of an answer's tokens, each given what precedes it, `n` their number, and
//! `A = S / n`. Prompts and padding have none. `S_ref` is that of a reference model, which is not trained. A pair has a
//! chosen answer (`w`) and a rejected one (`l`); `r = S − S_ref` and `Δ = r_w − r_l`. `σ` is the logistic function.
//!
//! | loss | type |
//! |---|---|
//! | DPO, conservative and robust DPO, hinge, IPO, length-normalised DPO, APO, ORPO, SimPO, CPO | [`PairLoss`] |
//! | the term of supervised tuning beside them | [`NllAverage`] |
//! | KTO, APO of single answers | [`UnpairedLoss`] |
//! | Bradley–Terry rewards | [`RewardLoss`] |
//! | GRPO, Dr. GRPO, DAPO, BNPO, GSPO | [`PolicyLoss`] |
//! | divergences of a teacher and a student | [`Divergence`] |
//!
//! [`CausalLm::log_probs`](crate::CausalLm::log_probs) returns log-probabilities without the logits of all tokens, and
//! [`answer_sums`] adds them up. All functions compute in the dtype of their tensors, and gradients flow to the
//! policy's alone: other tensors are constants. Each type holds the settings that its loss has, so that none is
//! ignored; a setting out of its range is an error.

// Numbers are multiplied by reciprocals: the gradient of Burn's division by a number has only the precision of f32.

mod distillation;
mod numbers;
mod pairs;
mod policy;
mod reward;
mod unpaired;

pub use distillation::Divergence;
pub use pairs::{NllAverage, PairLoss, Pairs};
pub use policy::{AdvantageScale, Aggregation, PolicyLoss, Ratio, Rollouts, advantages};
pub use reward::RewardLoss;
pub use unpaired::{UnpairedLoss, kl_baseline};

use crate::error::ModelError;
use burn::tensor::{DType, IndexingUpdateOp, Int, Tensor, TensorData};
use numbers::input;

/// The log-probabilities of answers.
#[derive(Clone, Debug)]
pub struct Answers {
    /// `S` of each answer, by the trained model, `[answers]`.
    pub policy: Tensor<1>,
    /// `S_ref` of each answer, by the reference model, `[answers]`. `None` for a loss without a reference.
    pub reference: Option<Tensor<1>>,
    /// `n`, the number of tokens of each answer, `[answers]`, in the dtype of `policy`.
    pub tokens: Tensor<1>,
}

impl Answers {
    /// Returns `r = S − S_ref`, or `S` without a reference.
    pub fn ratios(&self) -> Tensor<1> {
        match &self.reference {
            Some(reference) => self.policy.clone() - reference.clone().detach(),
            None => self.policy.clone(),
        }
    }

    /// Returns `A = S / n`.
    pub fn means(&self) -> Tensor<1> {
        self.policy.clone() / self.tokens.clone()
    }

    /// Returns the number of answers.
    ///
    /// # Errors
    /// Returns [`ModelError::Input`] if the tensors have different lengths.
    pub fn count(&self) -> Result<usize, ModelError> {
        let [count] = self.policy.dims();
        let reference = self.reference.as_ref();
        for (name, tensor) in [("reference", reference), ("tokens", Some(&self.tokens))] {
            let found = tensor.map_or(count, |tensor| tensor.dims()[0]);
            if found != count {
                return Err(input(
                    name,
                    format!("expected {count} answers, found {found}"),
                ));
            }
        }
        Ok(count)
    }
}

/// Adds up the log-probabilities of tokens, `[tokens]`, of which each answer has `lengths` in a row. Returns the sums
/// `[answers]`, and the lengths as a tensor like them.
///
/// # Errors
/// Returns [`ModelError::Input`] if an answer has no token, or if the lengths don't add up to the tokens.
pub fn answer_sums(
    log_probs: Tensor<1>,
    lengths: &[usize],
) -> Result<(Tensor<1>, Tensor<1>), ModelError> {
    let [tokens] = log_probs.dims();
    if let Some(at) = lengths.iter().position(|length| *length == 0) {
        return Err(input("lengths", format!("answer {at} has no token")));
    }
    let all = lengths
        .iter()
        .fold(0, |all: usize, length| all.saturating_add(*length));
    if all != tokens {
        let problem = format!("they add up to {all}, but there are {tokens} log-probabilities");
        return Err(input("lengths", problem));
    }
    let (device, dtype) = (log_probs.device(), log_probs.dtype());
    let each = lengths.iter().enumerate();
    let owners = each.flat_map(|(answer, length)| std::iter::repeat_n(answer as i64, *length));
    let owners = TensorData::new(owners.collect::<Vec<i64>>(), [tokens]);
    let owners = Tensor::<1, Int>::from_data(owners, (&device, DType::I64));
    let zeros = Tensor::zeros([lengths.len()], (&device, dtype));
    let counts: Vec<f64> = lengths.iter().map(|length| *length as f64).collect();
    let counts = Tensor::from_data(TensorData::new(counts, [lengths.len()]), (&device, dtype));
    let sums = zeros.select_assign(0, owners, log_probs, IndexingUpdateOp::Add);
    Ok((sums, counts))
}

/// A number that runs log, as a sum, so that parts of a step can be merged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// The name, as TRL logs it.
    pub name: &'static str,
    /// The sum of the values, or of `min_reward` and `max_reward` the number itself, with a count of 1.
    pub sum: f64,
    /// The number of values.
    pub count: f64,
}

impl Metric {
    fn of_values(name: &'static str, values: &[f64]) -> Self {
        Self {
            name,
            sum: values.iter().sum(),
            count: values.len() as f64,
        }
    }

    /// Adds the values of another part of a step. The least and the largest reward are those of both parts.
    pub fn merge(&mut self, other: &Self) {
        match self.name {
            LEAST => self.sum = self.sum.min(other.sum),
            LARGEST => self.sum = self.sum.max(other.sum),
            _ => {
                self.sum += other.sum;
                self.count += other.count;
            }
        }
    }
}

/// The names of metrics that are not means.
const LEAST: &str = "min_reward";
const LARGEST: &str = "max_reward";
