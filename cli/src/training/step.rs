//! Losses and gradients of batches.

use super::batch::Batch;
use super::distillation::Teacher;
#[cfg(feature = "distributed")]
use super::exchange::balance::{add_nothing, balanced};
use super::preference::{Preference, Term, Whole};
use super::random::SplitMix64;
use super::ranks::Ranks;
use burn::module::Module;
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::{Device, FloatDType, Gradients, Tensor};
#[cfg(feature = "distributed")]
use burn_kernels::distributed::Group;
use burn_kernels::optim::{rounded, widened};
use kernels_models::preference::Metric;
use kernels_models::{CausalLm, Losses};

/// The losses of a step or a validation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loss {
    /// The mean cross-entropy of the targets, in nats, or the mean loss of pairs or single answers.
    pub value: f64,
    /// The load-balancing loss of a mixture of experts, without its coefficient.
    pub load_balancing: Option<f64>,
    /// Further metrics, of answers or of observed tokens.
    pub metrics: Vec<Metric>,
}

/// A mean of losses, each weighted by its number of targets, pairs or single answers.
#[derive(Default)]
pub struct Mean {
    sum: Loss,
    weight: f64,
}

impl Mean {
    /// Adds the loss of a batch.
    pub fn add(&mut self, loss: Loss, counted: usize) {
        let weight = counted as f64;
        self.merge(Self {
            sum: Loss {
                value: loss.value * weight,
                load_balancing: loss.load_balancing.map(|balance| balance * weight),
                metrics: loss.metrics,
            },
            weight,
        });
    }

    /// Adds the losses of another mean.
    pub fn merge(&mut self, other: Self) {
        self.sum.value += other.sum.value;
        if let Some(balance) = other.sum.load_balancing {
            *self.sum.load_balancing.get_or_insert(0.0) += balance;
        }
        for metric in other.sum.metrics {
            let known = &mut self.sum.metrics;
            match known.iter_mut().find(|known| known.name == metric.name) {
                Some(known) => known.merge(&metric),
                None => known.push(metric),
            }
        }
        self.weight += other.weight;
    }

    /// Adds up the sums of all ranks. Ranks have losses of tokens, whose only metrics are those of observed tokens.
    ///
    /// # Errors
    /// Returns an error if a rank is lost.
    pub fn of_all(self, ranks: &Ranks) -> anyhow::Result<Self> {
        if ranks.size() == 1 {
            return Ok(self);
        }
        let mut numbers = vec![self.sum.value, self.weight];
        let balance = self.sum.load_balancing;
        numbers.extend([
            balance.unwrap_or(0.0),
            f64::from(u8::from(balance.is_some())),
        ]);
        for name in OBSERVED_METRICS {
            let known = self.sum.metrics.iter().find(|metric| metric.name == name);
            numbers.extend(known.map_or([0.0; 2], |metric| [metric.sum, metric.count]));
        }
        ranks.sum(&mut numbers)?;
        let metrics = OBSERVED_METRICS.into_iter().zip(numbers[4..].chunks(2));
        let metrics = metrics.filter(|(_, pair)| pair[1] > 0.0);
        Ok(Self {
            sum: Loss {
                value: numbers[0],
                load_balancing: (numbers[3] > 0.0).then_some(numbers[2]),
                metrics: metrics
                    .map(|(name, pair)| Metric {
                        name,
                        sum: pair[0],
                        count: pair[1],
                    })
                    .collect(),
            },
            weight: numbers[1],
        })
    }

    /// Returns the mean. Without a target it is NaN.
    pub fn get(self) -> Loss {
        Loss {
            value: self.sum.value / self.weight,
            load_balancing: self.sum.load_balancing.map(|sum| sum / self.weight),
            metrics: self.sum.metrics,
        }
    }
}

/// The way in which losses and gradients are computed.
#[derive(Clone, Copy)]
pub struct Method<'a> {
    /// The dtype that losses and gradients are computed in.
    pub dtype: FloatDType,
    /// The device of the batches: with autodiff, if gradients are wanted.
    pub device: &'a Device,
    /// `None` to keep the activations of all layers. Otherwise each layer is computed twice, and its random numbers follow
    /// from this seed.
    pub recompute: Option<u64>,
    /// The loss of answers, in place of that of tokens.
    pub preference: Option<&'a Preference>,
    /// The teacher, if the loss is a divergence from one.
    pub teacher: Option<&'a Teacher>,
}

/// Computes the losses of a model.
pub struct Pass<'a> {
    model: &'a CausalLm,
    /// The model in the dtype that losses are computed in.
    computed: CausalLm,
    method: Method<'a>,
    /// The ranks that share its batches.
    #[cfg(feature = "distributed")]
    sharing: Option<&'a Group>,
}

impl<'a> Pass<'a> {
    /// Prepares a pass. Its gradients are those of `model`, whose parameters keep their own dtype.
    pub fn new(model: &'a CausalLm, method: Method<'a>) -> Self {
        let computed = match method.dtype {
            FloatDType::F32 => model.clone(),
            half => rounded(model, half),
        };
        Self {
            model,
            computed,
            method,
            #[cfg(feature = "distributed")]
            sharing: None,
        }
    }

    /// Returns a pass whose batches are this rank's shares of those of a group.
    #[cfg(feature = "distributed")]
    pub fn shared(self, group: &'a Group) -> Self {
        let sharing = Some(group);
        Self { sharing, ..self }
    }

    /// Returns the loss of a batch.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn loss(&self, batch: &Batch) -> anyhow::Result<Loss> {
        let whole = self.whole(std::slice::from_ref(batch))?;
        let term = self.term(batch, &whole)?;
        let (losses, metrics) = self.losses(batch, term)?;
        self.read(&losses, metrics, batch)
    }

    /// Returns the losses of batches, and their share of the gradients of a step with `all` targets, pairs or single answers.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn gradients(
        &self,
        batches: &[Batch],
        all: usize,
    ) -> anyhow::Result<(Mean, GradientsParams)> {
        let mut sum = GradientsAccumulator::new();
        let take = |gradients, _| sum.accumulate(self.model, gradients);
        let mean = self.each_gradient(batches, all, take)?;
        Ok((mean, sum.grads()))
    }

    /// Returns the losses of batches, and passes on their share of the gradients of a step with `all` targets, pairs or
    /// single answers, each time with whether they are of the last batch. A parameter can have several gradients.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn each_gradient(
        &self,
        batches: &[Batch],
        all: usize,
        mut take: impl FnMut(GradientsParams, bool),
    ) -> anyhow::Result<Mean> {
        let mut mean = Mean::default();
        let whole = self.whole(batches)?;
        for (number, batch) in batches.iter().enumerate() {
            let pass = self;
            #[cfg(feature = "distributed")]
            let of_share;
            #[cfg(feature = "distributed")]
            let pass = match self.sharing {
                None => pass,
                Some(group) if batch.targets() == 0 => {
                    add_nothing(&self.computed, group)?;
                    continue;
                }
                Some(group) => {
                    of_share = self.balanced(batch, group);
                    &of_share
                }
            };
            let weight = batch.counted() as f64 / all as f64;
            let term = self.term(batch, &whole)?;
            let is_last = number + 1 == batches.len();
            let take = |gradients| take(self.of_parameters(gradients), is_last);
            let loss = match self.method.recompute {
                Some(seed) => {
                    let seed = SplitMix64::of(seed, number as u64).next();
                    pass.recomputed(batch, term, (weight, seed), take)?
                }
                None => pass.kept(batch, term, weight, take)?,
            };
            mean.add(loss, batch.counted());
        }
        Ok(mean)
    }

    /// Returns the pass of this rank's share of a batch.
    #[cfg(feature = "distributed")]
    fn balanced(&self, share: &Batch, group: &Group) -> Self {
        Self {
            model: self.model,
            computed: balanced(self.computed.clone(), group, share.targets()),
            method: self.method,
            sharing: self.sharing,
        }
    }

    /// Passes on the gradients of a batch, from one graph of the whole model.
    fn kept(
        &self,
        batch: &Batch,
        term: Option<Term<'_>>,
        weight: f64,
        mut take: impl FnMut(Gradients),
    ) -> anyhow::Result<Loss> {
        let (losses, metrics) = self.losses(batch, term)?;
        let loss = self.read(&losses, metrics, batch)?;
        let total = match weight {
            1.0 => losses.total,
            _ => losses.total * weight,
        };
        take(total.backward());
        Ok(loss)
    }

    /// Passes on the gradients of a batch, layer by layer.
    fn recomputed(
        &self,
        batch: &Batch,
        term: Option<Term<'_>>,
        weight_and_seed: (f64, u64),
        take: impl FnMut(Gradients),
    ) -> anyhow::Result<Loss> {
        let model = &self.computed;
        let sequences = batch.seen(model, self.method.device)?;
        let (losses, metrics) = match (term, self.method.teacher) {
            (Some(term), _) => term.loss(|scored, loss| {
                model.recomputed_losses_of_log_probs(sequences, scored, loss, weight_and_seed, take)
            })?,
            (None, Some(teacher)) => {
                let places = batch.learned();
                let taught = teacher.of(&places);
                let losses =
                    model.recomputed_losses_of_divergence(sequences, taught, weight_and_seed, take);
                (losses, Vec::new())
            }
            (None, None) => {
                let losses = model.recomputed_losses(sequences, weight_and_seed, take);
                (losses, Vec::new())
            }
        };
        self.read(&losses, metrics, batch)
    }

    /// Returns the losses of a batch, and the metrics of answers.
    fn losses(
        &self,
        batch: &Batch,
        term: Option<Term<'_>>,
    ) -> anyhow::Result<(Losses, Vec<Metric>)> {
        let (model, device) = (&self.computed, self.method.device);
        if let Some(term) = term {
            let sequences = batch.seen(model, device)?;
            return term.loss(|scored, loss| model.losses_of_log_probs(sequences, scored, loss));
        }
        let losses = match self.method.teacher {
            Some(teacher) => {
                let (sequences, places) = (batch.seen(model, device)?, batch.learned());
                model.losses_of_divergence(sequences, teacher.of(&places))
            }
            None if batch.has_targets() => model.sequence_losses(batch.seen(model, device)?),
            None => model.training_losses(batch.input_ids(device), None),
        };
        Ok((losses, Vec::new()))
    }

    fn read(
        &self,
        losses: &Losses,
        mut metrics: Vec<Metric>,
        batch: &Batch,
    ) -> anyhow::Result<Loss> {
        let number = |loss: &Tensor<1>| loss.clone().without_autodiff().try_into_scalar::<f64>();
        metrics.extend(self.observed(losses, batch)?);
        Ok(Loss {
            value: number(&losses.next_token)?,
            load_balancing: losses.load_balancing.as_ref().map(number).transpose()?,
            metrics,
        })
    }

    /// Returns metrics of some tokens with a target, at equal distances, under TRL's names. The accuracy of answers that are
    /// compared is that of chosen ones. A reward model predicts no tokens.
    fn observed(&self, losses: &Losses, batch: &Batch) -> anyhow::Result<Vec<Metric>> {
        let (places, kinds) = batch.scored();
        if places.is_empty() || self.computed.config().is_reward_model() {
            return Ok(Vec::new());
        }
        let distance = places.len().div_ceil(OBSERVED);
        let places: Vec<usize> = places.into_iter().step_by(distance).collect();
        let kinds = kinds.map(|kinds| kinds.into_iter().step_by(distance).collect::<Vec<_>>());
        let targets: Vec<i64> = places.iter().map(|place| batch.target(*place)).collect();
        let observed = self.computed.observe(losses, &places, &targets);
        let parts = vec![observed.entropy, observed.right, observed.mean_logit];
        // One read, because each waits for the device.
        let numbers = Tensor::cat(parts, 0).try_to_vec_as::<f64>()?;
        let (entropies, others) = numbers.split_at(places.len());
        let (right, logits) = others.split_at(places.len());
        let metric = |name, values: &[f64], of: &dyn Fn(usize) -> bool| {
            let some = values.iter().enumerate().filter(|(token, _)| of(*token));
            let some: Vec<f64> = some.map(|(_, value)| *value).collect();
            let (sum, count) = (some.iter().sum(), some.len() as f64);
            Metric { name, sum, count }
        };
        let is_chosen = |token: usize| kinds.as_ref().is_none_or(|kinds| kinds[token]);
        let [entropy, accuracy] = OBSERVED_METRICS;
        let mut metrics = vec![
            metric(entropy, entropies, &|_| true),
            metric(accuracy, right, &is_chosen),
        ];
        if kinds.is_some() {
            metrics.push(metric("logits/chosen", logits, &is_chosen));
            metrics.push(metric("logits/rejected", logits, &|token| {
                !is_chosen(token)
            }));
        }
        Ok(metrics)
    }

    /// Returns the numbers that the batches of a step share.
    fn whole(&self, batches: &[Batch]) -> anyhow::Result<Option<Whole>> {
        let preference = self.method.preference;
        let of = |preference: &Preference| preference.whole(&self.computed, batches);
        preference.map(of).transpose()
    }

    /// Returns the loss of a batch of answers, if the loss is of answers.
    fn term<'b>(
        &'b self,
        batch: &'b Batch,
        whole: &'b Option<Whole>,
    ) -> anyhow::Result<Option<Term<'b>>> {
        let both = self.method.preference.zip(whole.as_ref());
        both.map(|(preference, whole)| preference.term(batch, whole))
            .transpose()
    }

    /// Returns the gradients of parameters in their own dtypes.
    fn of_parameters(&self, gradients: Gradients) -> GradientsParams {
        let gradients = GradientsParams::from_grads(gradients, &self.computed);
        match self.method.dtype {
            FloatDType::F32 => gradients,
            _ => widened(gradients, self.model),
        }
    }
}

/// The metrics of observed tokens, under TRL's names.
const OBSERVED_METRICS: [&str; 2] = ["entropy", "mean_token_accuracy"];

/// The number of tokens of a batch that are observed: enough for a mean, and few beside those that are learned.
const OBSERVED: usize = 64;

/// Returns a model that losses can be computed of without gradients.
pub fn without_gradients(model: &CausalLm) -> CausalLm {
    model.clone().valid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_weighted_by_targets() {
        let loss = |value, load_balancing, (sum, count)| Loss {
            value,
            load_balancing,
            metrics: vec![Metric {
                name: "rewards/chosen",
                sum,
                count,
            }],
        };
        let mut mean = Mean::default();
        mean.add(loss(1.0, Some(2.0), (5.0, 1.0)), 1);
        let mut other = Mean::default();
        other.add(loss(3.0, Some(4.0), (1.0, 2.0)), 3);
        mean.merge(other);
        assert_eq!(mean.get(), loss(2.5, Some(3.5), (6.0, 3.0)));
        assert!(Mean::default().get().value.is_nan());
    }
}
