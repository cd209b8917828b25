//! Log-probabilities of tokens, without the logits of all tokens, and losses of them.
//!
//! The log-probability of a target is its negated cross-entropy, so the kernel of that loss computes it by parts, and again in
//! the backward pass with a factor for each token. Tokens that are not scored, such as those of prompts, are not projected.

use burn::tensor::{DType, Gradients, Int, Tensor, TensorData};

use crate::config::ModelConfig;
use crate::error::ModelError;
use crate::model::causal_lm::{CausalLm, Losses};
use crate::model::loss::{
    IGNORED, capped_projected_losses, capped_tied_losses, projected_losses, tied_losses,
};
use crate::model::rewards;
use crate::model::sequences::{Counted, Sequences};

/// The tokens whose targets are scored.
#[derive(Clone, Copy, Debug)]
pub struct Scored<'a> {
    /// Their places in sequences `[b, s]`, row after row: `row · s + column`. Each has a target that is a token.
    pub places: &'a [usize],
    /// The number that logits are divided by, after the cap of their size if the model has one. Usually 1.
    pub temperature: f64,
}

impl Scored<'_> {
    /// Checks places, targets and temperature. This copies the targets to the host. A reward model has none.
    ///
    /// # Errors
    /// Returns [`ModelError::Input`] without a place, for a place outside the sequences or whose target is not a token of the
    /// vocabulary, such as [`Sequences::IGNORED`], and [`ModelError::Setting`] for a temperature that is not a finite number
    /// above 0.
    pub fn check(&self, sequences: &Sequences, config: &ModelConfig) -> Result<(), ModelError> {
        let fail = |input, problem| Err(ModelError::Input { input, problem });
        if !(self.temperature > 0.0 && self.temperature.is_finite()) {
            return Err(ModelError::Setting {
                setting: "temperature",
                problem: format!("must be a number above 0, but is {}", self.temperature),
            });
        }
        if self.places.is_empty() {
            return fail("places", "there is no token to score".into());
        }
        let [batch, seq] = sequences.targets.dims();
        let outside = |place: &&usize| **place >= batch * seq;
        if let Some(place) = self.places.iter().find(outside) {
            let problem = format!("place {place} is outside {batch} sequences of {seq} tokens");
            return fail("places", problem);
        }
        if config.is_reward_model() {
            // Scores have no targets.
            return Ok(());
        }
        let targets = match sequences.targets.try_to_vec_as::<i64>() {
            Ok(targets) => targets,
            Err(error) => {
                return fail(
                    "targets",
                    format!("cannot be read from the device: {error}"),
                );
            }
        };
        let is_token = |target: i64| (0..config.vocab_size as i64).contains(&target);
        let lacking = self.places.iter().find(|place| !is_token(targets[**place]));
        match lacking {
            None => Ok(()),
            Some(place) => {
                let what = match targets[*place] {
                    Sequences::IGNORED => " (the one of tokens that are not part of a loss)",
                    _ => "",
                };
                let problem = format!(
                    "row {}, column {} is scored, but its target {}{what} is not in 0..{} (vocab_size)",
                    place / seq,
                    place % seq,
                    targets[*place],
                    config.vocab_size
                );
                fail("targets", problem)
            }
        }
    }

    /// Panics with the error of [`check`](Self::check).
    fn require(&self, sequences: &Sequences, config: &ModelConfig) {
        let checked = self.check(sequences, config);
        checked.unwrap_or_else(|error| panic!("{error}"));
    }
}

impl CausalLm {
    /// Returns the log-probabilities of the targets of some tokens, `[places]`, in f32 (f64 for f64 weights). The
    /// kernel holds the logits of a few tokens at a time, and the reference those of all scored ones.
    ///
    /// Of a reward model these are the scores of the tokens, whatever their targets and the temperature.
    ///
    /// # Panics
    /// Panics as [`sequence_losses`](Self::sequence_losses) does, and on what [`Scored::check`] refuses.
    pub fn log_probs(&self, sequences: Sequences, scored: Scored<'_>) -> Tensor<1> {
        scored.require(&sequences, self.config());
        let (packed, counted) = sequences.parts(self.config());
        let (hidden, _) = self.model.forward_packed(packed);
        self.scores(hidden, counted.targets, scored)
    }

    /// Returns the losses of sequences whose loss is a function of the [log-probabilities](Self::log_probs) of some tokens.
    /// [`Losses::next_token`] is then this loss.
    ///
    /// # Panics
    /// Panics as [`log_probs`](Self::log_probs) does.
    pub fn losses_of_log_probs(
        &self,
        sequences: Sequences,
        scored: Scored<'_>,
        loss: impl FnOnce(Tensor<1>) -> Tensor<1>,
    ) -> Losses {
        scored.require(&sequences, self.config());
        let (packed, counted) = sequences.parts(self.config());
        let passed = self.model.forward_packed(packed);
        self.losses_of_scores(passed, counted, scored, loss)
    }

    /// Returns the losses of [`losses_of_log_probs`](Self::losses_of_log_probs), and passes the gradients of `weight` times the
    /// total loss to `take`, as [`recomputed_losses`](Self::recomputed_losses) does.
    ///
    /// # Panics
    /// Panics as `losses_of_log_probs` and `recomputed_losses` do.
    pub fn recomputed_losses_of_log_probs(
        &self,
        sequences: Sequences,
        scored: Scored<'_>,
        loss: impl FnOnce(Tensor<1>) -> Tensor<1>,
        weight_and_seed: (f64, u64),
        take: impl FnMut(Gradients),
    ) -> Losses {
        scored.require(&sequences, self.config());
        let losses = |model: &Self, passed: (Tensor<3>, Vec<Tensor<2>>), counted: Counted| {
            model.losses_of_scores(passed, counted, scored, loss)
        };
        self.recomputed(sequences, losses, weight_and_seed, take)
    }

    fn losses_of_scores(
        &self,
        (hidden, router_logits): (Tensor<3>, Vec<Tensor<2>>),
        Counted { targets, mask }: Counted,
        scored: Scored<'_>,
        loss: impl FnOnce(Tensor<1>) -> Tensor<1>,
    ) -> Losses {
        let loss = loss(self.scores(hidden.clone(), targets, scored));
        self.with_load_balancing(loss, &router_logits, mask)
            .of_hidden(hidden)
    }

    /// Returns the log-probabilities of hidden states `[b, s, hidden]`.
    fn scores(&self, hidden: Tensor<3>, targets: Tensor<1, Int>, scored: Scored<'_>) -> Tensor<1> {
        let Scored {
            places,
            temperature,
        } = scored;
        let [batch, seq, width] = hidden.dims();
        if let Some(score) = &self.score {
            return rewards::scores(hidden, places, score);
        }
        let data = places.iter().map(|place| *place as i64).collect();
        let data = TensorData::new::<i64, _>(data, [places.len()]);
        let places = Tensor::<1, Int>::from_data(data, (&hidden.device(), DType::I64));
        let hidden = hidden
            .reshape([batch * seq, width])
            .select(0, places.clone());
        let targets = targets.select(0, places);
        // Logits are linear in hidden states, and c·tanh(z / c) / T = (c / T)·tanh((z / T) / (c / T)).
        let (hidden, cap) = match temperature {
            1.0 => (hidden, self.softcap()),
            // The gradient of Burn's division by a number has the precision of f32.
            divisor => (
                hidden * (1.0 / divisor),
                self.softcap().map(|cap| cap / divisor),
            ),
        };
        if let Some(head) = self.quantised_head() {
            return head.losses(hidden, targets, IGNORED, cap).neg();
        }
        let losses = match (&self.lm_head, cap) {
            (Some(head), None) => projected_losses(hidden, head.weight.val(), targets),
            (Some(head), Some(cap)) => {
                capped_projected_losses(hidden, head.weight.val(), targets, cap)
            }
            (None, None) => tied_losses(hidden, self.model.embed_tokens.weight.val(), targets),
            (None, Some(cap)) => {
                capped_tied_losses(hidden, self.model.embed_tokens.weight.val(), targets, cap)
            }
        };
        losses.neg()
    }
}
