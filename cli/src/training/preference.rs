//! Losses of answers, from the log-probabilities of their tokens by the trained model and by a reference.

use super::batch::{Answers as Layout, Batch};
use super::policy;
use super::step::without_gradients;
use anyhow::Context;
use burn::tensor::{DType, Device, Tensor, TensorData};
use kernels_models::preference::{
    Answers, Metric, NllAverage, PairLoss, Pairs, PolicyLoss, RewardLoss, Rollouts, UnpairedLoss,
    answer_sums, kl_baseline,
};
use kernels_models::{CausalLm, Losses, Scored};

/// A loss of answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// A loss of pairs, and the weight and the average of the chosen answers' negative log-likelihood.
    Pairs(PairLoss, Option<(f64, NllAverage)>),
    /// A loss of single answers.
    Single(UnpairedLoss),
    /// The loss of a reward model.
    Rewards(RewardLoss),
    /// A loss of completions with rewards, and the temperature that they are drawn with.
    Policy(PolicyLoss, f64),
}

impl Objective {
    /// Returns the number that logits are divided by.
    fn temperature(self) -> f64 {
        match self {
            Self::Policy(_, temperature) => temperature,
            _ => 1.0,
        }
    }
}

/// A loss of answers, and the model that they are compared with.
pub struct Preference {
    /// The loss.
    pub objective: Objective,
    /// The reference model in the dtype of losses, without gradients. `None` if the loss has none, or if all answers have
    /// log-probabilities of it.
    pub reference: Option<CausalLm>,
    /// The device, without autodiff.
    pub device: Device,
}

/// Numbers that all batches of a step share.
pub struct Whole {
    /// The number of tokens of chosen answers.
    chosen: usize,
    /// The number of pairs or single answers.
    counted: usize,
    /// The baseline of KTO.
    baseline: Option<f64>,
    /// The number of tokens of all answers that count.
    tokens: usize,
}

/// The loss of one batch.
pub struct Term<'a> {
    objective: Objective,
    whole: &'a Whole,
    layout: &'a Layout,
    /// The sums of log-probabilities by the reference, or those of all tokens of completions with rewards.
    reference: Option<Vec<f64>>,
}

/// The answers of a batch.
enum Scores {
    Pairs(Box<Pairs>),
    Single(Box<Answers>),
    Rewards(Box<[Tensor<1>; 2]>),
    Policy(Box<Rollouts>),
}

impl Preference {
    /// Returns the numbers that the batches of a step share.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn whole(&self, model: &CausalLm, batches: &[Batch]) -> anyhow::Result<Whole> {
        let layouts = || batches.iter().filter_map(Batch::answers);
        let chosen = |layout: &Layout| layout.lengths[..layout.count()].iter().sum::<usize>();
        let baseline = match self.objective {
            Objective::Single(loss) if loss.has_baseline => Some(self.baseline(model, batches)?),
            _ => None,
        };
        Ok(Whole {
            chosen: layouts().map(chosen).sum(),
            counted: layouts().map(Layout::count).sum(),
            baseline,
            tokens: layouts().map(Layout::tokens).sum(),
        })
    }

    /// Returns the baseline of KTO, from the mismatched answers of all batches.
    fn baseline(&self, model: &CausalLm, batches: &[Batch]) -> anyhow::Result<f64> {
        let model = without_gradients(model);
        let (mut policy, mut reference) = (Vec::new(), Vec::new());
        for batch in batches {
            let layout = batch.answers().context("a batch has answers")?;
            let mismatched = layout.mismatched.as_ref();
            let mismatched = mismatched.context("a batch has mismatched answers")?;
            policy.extend(self.sums(&model, mismatched)?);
            reference.extend(
                self.reference(mismatched)?
                    .context("a reference is given")?,
            );
        }
        let host = Device::flex();
        let z = kl_baseline(&Answers {
            tokens: vector(vec![1.0; policy.len()], (&host, DType::F64)),
            policy: vector(policy, (&host, DType::F64)),
            reference: Some(vector(reference, (&host, DType::F64))),
        })?;
        Ok(z.try_into_scalar::<f64>()?)
    }

    /// Returns the loss of a batch of a step.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn term<'a>(&self, batch: &'a Batch, whole: &'a Whole) -> anyhow::Result<Term<'a>> {
        Ok(Term {
            objective: self.objective,
            whole,
            layout: batch.answers().context("a batch has answers")?,
            reference: self.reference(batch)?,
        })
    }

    /// Returns the sums of the reference's log-probabilities, if there is a reference.
    fn reference(&self, batch: &Batch) -> anyhow::Result<Option<Vec<f64>>> {
        let known = batch.answers().and_then(|layout| layout.reference.clone());
        match (known, &self.reference) {
            (Some(known), _) => Ok(Some(known)),
            (None, Some(model)) if matches!(self.objective, Objective::Policy(..)) => {
                Ok(Some(self.log_probs(model, batch)?.try_to_vec_as::<f64>()?))
            }
            (None, Some(model)) => self.sums(model, batch).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Returns the sum of the log-probabilities of each answer, by a model without gradients.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn sums(&self, model: &CausalLm, batch: &Batch) -> anyhow::Result<Vec<f64>> {
        let layout = batch.answers().context("a batch has answers")?;
        let log_probs = self.log_probs(model, batch)?;
        let (sums, _) = answer_sums(log_probs, &layout.lengths)?;
        Ok(sums.try_to_vec_as::<f64>()?)
    }

    /// Returns the log-probabilities of all tokens of answers, by a model without gradients.
    fn log_probs(&self, model: &CausalLm, batch: &Batch) -> anyhow::Result<Tensor<1>> {
        let layout = batch.answers().context("a batch has answers")?;
        let scored = layout.scored(self.objective.temperature());
        Ok(model.log_probs(batch.sequences(&self.device), scored))
    }
}

pub(super) fn vector(values: Vec<f64>, place: (&Device, DType)) -> Tensor<1> {
    let count = values.len();
    Tensor::from_data(TensorData::new(values, [count]), place)
}

impl Layout {
    fn scored(&self, temperature: f64) -> Scored<'_> {
        Scored {
            places: &self.places,
            temperature,
        }
    }
}

impl Term<'_> {
    /// Computes losses by `run`, which gets the scored tokens and the loss as a function of their log-probabilities. Returns
    /// them with their metrics.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn loss(
        &self,
        run: impl FnOnce(Scored<'_>, &mut dyn FnMut(Tensor<1>) -> Tensor<1>) -> Losses,
    ) -> anyhow::Result<(Losses, Vec<Metric>)> {
        let mut scores = None;
        let mut loss = |log_probs: Tensor<1>| {
            let found = self.scores(log_probs);
            let (loss, metrics) = self.of(&found);
            scores = Some((found, metrics));
            loss
        };
        let losses = run(self.layout.scored(self.objective.temperature()), &mut loss);
        let (scores, mut metrics) = scores.context("the loss was computed")?;
        metrics.extend(self.metrics(&scores)?);
        Ok((losses, metrics))
    }

    fn scores(&self, log_probs: Tensor<1>) -> Scores {
        let count = self.layout.count();
        if let Objective::Rewards(_) = self.objective {
            let part = |start| log_probs.clone().narrow(0, start, count);
            return Scores::Rewards(Box::new([part(0), part(count)]));
        }
        if let Some(rollout) = &self.layout.rollout {
            let reference = self.reference.as_deref();
            let rollouts = policy::rollouts(&self.layout.lengths, rollout, log_probs, reference);
            return Scores::Policy(Box::new(rollouts));
        }
        let device = log_probs.device();
        let sums = answer_sums(log_probs, &self.layout.lengths);
        let (sums, tokens) = sums.expect("each answer has its tokens");
        let reference = self.reference.clone();
        let reference = reference.map(|values| vector(values, (&device, sums.dtype())));
        let part = |start: usize, count: usize| Answers {
            policy: sums.clone().narrow(0, start, count),
            reference: reference.clone().map(|all| all.narrow(0, start, count)),
            tokens: tokens.clone().narrow(0, start, count),
        };
        match self.objective {
            Objective::Pairs(..) => Scores::Pairs(Box::new(Pairs {
                chosen: part(0, count),
                rejected: part(count, count),
            })),
            _ => Scores::Single(Box::new(part(0, count))),
        }
    }

    /// Returns the loss, which the step weighs by pairs or single answers, and the metrics that are computed with it.
    fn of(&self, scores: &Scores) -> (Tensor<1>, Vec<Metric>) {
        const CHECKED: &str = "the settings are checked, and each answer has its numbers";
        let mut metrics = Vec::new();
        let loss = match (self.objective, scores) {
            (Objective::Pairs(loss, nll), Scores::Pairs(pairs)) => {
                let mut total = loss.per_pair(pairs).expect(CHECKED).mean();
                if let Some((weight, average)) = nll {
                    let nll = average.nll(&pairs.chosen).expect(CHECKED);
                    total = total + nll * (weight * self.nll_share(average));
                }
                total
            }
            (Objective::Single(loss), Scores::Single(answers)) => {
                let (device, dtype) = (answers.policy.device(), answers.policy.dtype());
                let baseline = self.whole.baseline;
                let baseline = baseline.map(|z| vector(vec![z], (&device, dtype)));
                let each = loss.per_answer(answers, self.desirable(), baseline);
                each.expect(CHECKED).mean()
            }
            (Objective::Rewards(loss), Scores::Rewards(both)) => {
                let [chosen, rejected] = &**both;
                let place = (&chosen.device(), chosen.dtype());
                let margins = self.layout.margins.clone();
                let margins = margins.map(|margins| vector(margins, place));
                let each = loss.per_pair(chosen.clone(), rejected.clone(), margins);
                each.expect(CHECKED).mean()
            }
            (Objective::Policy(loss, _), Scores::Policy(rollouts)) => {
                let (loss, factor) = policy::of_step(loss, self.share(), self.whole.tokens);
                let (value, found) = loss.loss(rollouts).expect(CHECKED);
                metrics = found;
                value * factor
            }
            _ => unreachable!("scores are those of the objective"),
        };
        (loss, metrics)
    }

    /// Returns the factor that makes an average over the tokens of a step of one over those of a batch.
    fn nll_share(&self, average: NllAverage) -> f64 {
        let count = self.layout.count();
        let tokens: usize = self.layout.lengths[..count].iter().sum();
        let of_tokens = tokens as f64 / self.whole.chosen as f64;
        match average {
            NllAverage::Tokens => of_tokens / self.share(),
            NllAverage::Sequences => 1.0,
        }
    }

    /// Returns the part of a step's pairs or answers that this batch has.
    fn share(&self) -> f64 {
        self.layout.count() as f64 / self.whole.counted as f64
    }

    fn desirable(&self) -> &[bool] {
        self.layout.desirable.as_deref().unwrap_or_default()
    }

    /// Returns the other metrics.
    fn metrics(&self, scores: &Scores) -> anyhow::Result<Vec<Metric>> {
        let mut metrics = match (self.objective, scores) {
            (Objective::Pairs(loss, _), Scores::Pairs(pairs)) => {
                let mut metrics = loss.metrics(pairs)?;
                let means = [&pairs.chosen, &pairs.rejected].map(Answers::means);
                let means = Vec::from(means.map(Tensor::without_autodiff));
                let means = Tensor::cat(means, 0).try_to_vec_as::<f64>()?;
                let (chosen, rejected) = means.split_at(means.len() / 2);
                for (name, values) in [
                    ("logps_per_token/chosen", chosen),
                    ("logps_per_token/rejected", rejected),
                ] {
                    metrics.push(Metric {
                        name,
                        sum: values.iter().sum(),
                        count: values.len() as f64,
                    });
                }
                metrics
            }
            (Objective::Single(loss), Scores::Single(answers)) => {
                loss.metrics(answers, self.desirable())?
            }
            (Objective::Rewards(_), Scores::Rewards(both)) => {
                let [chosen, rejected] = &**both;
                RewardLoss::metrics(chosen.clone(), rejected.clone())?
            }
            (Objective::Policy(..), Scores::Policy(_)) => {
                let known = self.layout.rollout.iter();
                known.flat_map(|own| own.metrics.clone()).collect()
            }
            _ => unreachable!("scores are those of the objective"),
        };
        if let Some(sum) = self.whole.baseline {
            metrics.push(Metric {
                name: "kl",
                sum,
                count: 1.0,
            });
        }
        Ok(metrics)
    }
}
