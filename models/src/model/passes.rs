//! Passes of batches and of sequences of several documents, and their losses.

use burn::tensor::Tensor;

use crate::error::ModelError;
use crate::model::batch::{Batch, Padding, PositionIds};
use crate::model::causal_lm::{CausalLm, Losses, Output};
use crate::model::loss::loss_of_logits;
use crate::model::sequences::Sequences;

impl CausalLm {
    /// Returns the results of [`output`](Self::output) for a batch. The logits at padding are meaningless.
    ///
    /// # Panics
    ///
    /// Panics, or returns meaningless logits, on a batch that [`check_batch`](Self::check_batch) refuses.
    pub fn output_of(&self, batch: Batch) -> Output {
        let has_axes = matches!(batch.position_ids, Some(PositionIds::Axes(_)));
        assert!(
            !has_axes || self.config().rope.sections.is_some(),
            "tokens of {} have one position",
            self.config().architecture
        );
        let seen = self.see(batch);
        let (batch, seen) = seen.unwrap_or_else(|error| panic!("{error}"));
        let passed = self.model.forward_seeing(batch, seen, None);
        let (hidden, router_logits) = passed.expect("a pass without a cache has no error of one");
        Output {
            logits: self.logits(hidden),
            router_logits,
        }
    }

    /// Returns the logits of [`output_of`](Self::output_of), and the total loss of [`losses_of`](Self::losses_of).
    ///
    /// # Panics
    ///
    /// Panics as [`losses_of`](Self::losses_of) does.
    pub fn loss_of(&self, batch: Batch) -> (Tensor<3>, Tensor<1>) {
        if self.adds_load_balancing() {
            let (output, losses) = self.losses_of(batch);
            return (output.logits, losses.total);
        }
        let targets = batch.targets();
        let logits = self.output_of(batch).logits;
        (logits.clone(), loss_of_logits(rows(logits), targets))
    }

    /// Returns the results of [`output_of`](Self::output_of), and the losses of [`losses`](Self::losses). The loss of the
    /// next token counts the tokens that follow a token, and the load-balancing loss counts tokens.
    ///
    /// # Panics
    ///
    /// Panics as [`output_of`](Self::output_of) does, and on rows of one token. The loss is not a number if no row of the
    /// mask has two; see [`check_batch_with_loss`](Self::check_batch_with_loss).
    pub fn losses_of(&self, batch: Batch) -> (Output, Losses) {
        let (targets, mask) = (batch.targets(), batch.mask());
        let output = self.output_of(batch);
        let next_token = loss_of_logits(rows(output.logits.clone()), targets);
        let losses = self.with_load_balancing(next_token, &output.router_logits, mask);
        (output, losses)
    }

    /// Checks shapes and values of a batch. This copies them to the host.
    ///
    /// # Errors
    ///
    /// Returns an error as [`check_inputs`](Self::check_inputs) and [`check_axes`](Self::check_axes) do, and for
    /// embeddings of another shape or of a family that does not take embeddings. For pictures, returns
    /// [`ModelError::Input`] if the model was loaded without its vision tower, if `pixel_values` and `image_grid_thw`
    /// don't fit together or the tower, and if the number of tokens that stand for parts of pictures is not that of the
    /// parts.
    pub fn check_batch(&self, batch: &Batch) -> Result<(), ModelError> {
        self.check_embedded(batch)?;
        match &batch.position_ids {
            None => self.check_inputs(&batch.input_ids, None)?,
            Some(PositionIds::One(ids)) => self.check_inputs(&batch.input_ids, Some(ids))?,
            Some(PositionIds::Axes(ids)) => {
                self.check_inputs(&batch.input_ids, None)?;
                self.check_axes(&batch.input_ids, ids)?;
            }
        }
        self.check_pictures(batch)
    }

    /// Checks the embeddings of a batch, if it has its own.
    fn check_embedded(&self, batch: &Batch) -> Result<(), ModelError> {
        let Some(embedded) = &batch.inputs_embeds else {
            return Ok(());
        };
        let config = self.config();
        let [rows, seq] = batch.input_ids.dims();
        let (expected, found) = ([rows, seq, config.embedding_width()], embedded.dims());
        let family = config.family();
        let problem = if family.scaled_embeddings || family.altup {
            format!(
                "{} scales embeddings of token ids, or reads the ids again: it does not take embeddings",
                config.architecture
            )
        } else if found != expected {
            format!("expected shape {expected:?}, found {found:?}")
        } else {
            return Ok(());
        };
        Err(ModelError::Input {
            input: "inputs_embeds",
            problem,
        })
    }

    /// Checks a batch as [`check_batch`](Self::check_batch) does, and that there is a next token to predict.
    ///
    /// # Errors
    ///
    /// Returns an error as `check_batch` does, and if no token follows another.
    pub fn check_batch_with_loss(&self, batch: &Batch) -> Result<(), ModelError> {
        self.check_batch(batch)?;
        self.check_loss_inputs(&batch.input_ids, None)?;
        let predicts = |padding: &Padding| padding.predicts().contains(&true);
        match batch.padding.as_ref().is_none_or(predicts) {
            true => Ok(()),
            false => Err(ModelError::Input {
                input: "attention_mask",
                problem: "the loss needs a row with at least 2 tokens".into(),
            }),
        }
    }

    /// Returns the losses of sequences with targets of their own. [`Losses::next_token`] is the mean over the tokens with
    /// a target.
    ///
    /// # Panics
    /// Panics, or returns meaningless losses, on inputs that [`Sequences::check`] refuses, and on ids, targets or
    /// positions outside their ranges.
    pub fn sequence_losses(&self, sequences: Sequences) -> Losses {
        let (packed, counted) = sequences.parts(self.config());
        let passed = self.model.forward_packed(packed);
        self.losses_of_hidden(passed, counted)
    }
}

/// Reshapes `[b, s, vocab]` to `[b · s, vocab]`.
fn rows(logits: Tensor<3>) -> Tensor<2> {
    let [batch, seq, vocabulary] = logits.dims();
    logits.reshape([batch * seq, vocabulary])
}
