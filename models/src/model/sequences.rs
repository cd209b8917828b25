//! Losses of sequences with targets of their own, of several documents each.

use std::sync::Arc;

use burn::tensor::{FloatDType, Int, Tensor};

use crate::config::ModelConfig;
use crate::error::ModelError;
use crate::model::batch::Batch;
use crate::model::loss::IGNORED;
use crate::model::pictures::{SeenPictures, SequencePictures};

/// Sequences to compute losses of; see [`CausalLm::sequence_losses`](crate::CausalLm::sequence_losses).
#[derive(Debug, Clone)]
pub struct Sequences {
    /// The token ids, `[b, s]`.
    pub input_ids: Tensor<2, Int>,
    /// The target of each token, `[b, s]`: mostly the next token. A token with the target [`Sequences::IGNORED`] is not
    /// part of the loss.
    pub targets: Tensor<2, Int>,
    /// The position of each token, `[b, s]`. Those of a document begin at 0.
    pub position_ids: Tensor<2, Int>,
    /// The lengths of the documents of all sequences, if a sequence has several. A token sees tokens of its own document
    /// alone.
    pub documents: Option<Vec<usize>>,
    /// 1 for tokens and 0 for padding, `[b, s]`, if there is padding. The load-balancing loss leaves padding out. It
    /// stands behind the tokens of a sequence, and is a document of its own if there are several, so that no token sees it.
    pub attention_mask: Option<Tensor<2, Int>>,
    /// The pictures that some tokens stand for parts of. Their positions are then in place of `position_ids`.
    pub pictures: Option<SequencePictures>,
}

impl Sequences {
    /// The target of tokens that are not part of the loss, as in PyTorch.
    pub const IGNORED: i64 = IGNORED;

    /// Checks shapes and lengths, but no values.
    ///
    /// # Errors
    /// Returns [`ModelError::Input`] for shapes that differ, for lengths that are not those of the sequences, for
    /// documents if the model can't keep them apart, and for pictures whose features or places don't fit the model or the
    /// sequences.
    pub fn check(&self, config: &ModelConfig) -> Result<(), ModelError> {
        let fail = |input, problem| Err(ModelError::Input { input, problem });
        let shape = self.input_ids.dims();
        let mask = self.attention_mask.as_ref();
        for (input, tensor) in [
            ("targets", Some(&self.targets)),
            ("position_ids", Some(&self.position_ids)),
            ("attention_mask", mask),
        ] {
            let found = tensor.map_or(shape, Tensor::dims);
            if found != shape {
                return fail(input, format!("expected shape {shape:?}, found {found:?}"));
            }
        }
        if let Some(pictures) = &self.pictures {
            pictures.check(config, shape)?;
        }
        let Some(documents) = &self.documents else {
            return Ok(());
        };
        if let Some(reason) = config.packs_no_documents() {
            return fail(
                "documents",
                format!("sequences of several documents: {reason}"),
            );
        }
        let [batch, seq] = shape;
        // Each sequence ends with a document.
        let ends = documents.iter().scan(Some(0_usize), |end, length| {
            *end = end.and_then(|end| end.checked_add(*length));
            Some(*end)
        });
        // Lengths whose sum overflows have no ends.
        let ends: Option<Vec<usize>> = ends.collect();
        let ends = ends.unwrap_or_default();
        let is_end = |sequence: usize| ends.binary_search(&(sequence * seq)).is_ok();
        if ends.last() != Some(&(batch * seq)) || !(1..batch).all(is_end) {
            let problem =
                format!("their lengths do not add up to {batch} sequences of {seq} tokens");
            return fail("documents", problem);
        }
        Ok(())
    }
}

/// The lengths of the documents of all sequences, if a sequence has several.
pub(crate) type Documents = Option<Arc<[usize]>>;

/// The inputs of a pass over sequences.
pub(crate) struct Packed {
    pub(crate) batch: Batch,
    pub(crate) documents: Documents,
    pub(crate) seen: Option<SeenPictures>,
}

/// The targets of the losses of a pass, and the tokens that count.
pub(crate) struct Counted {
    /// The target of each token, `[b · s]`.
    pub(crate) targets: Tensor<1, Int>,
    /// 1 for the tokens of the load-balancing loss and 0 for others, `[b · s]`. All tokens without it.
    pub(crate) mask: Option<Tensor<1>>,
}

impl Sequences {
    /// Returns the inputs of a pass, and the targets of its losses.
    ///
    /// # Panics
    /// Panics if there are documents that the model can't keep apart.
    pub(crate) fn parts(self, config: &ModelConfig) -> (Packed, Counted) {
        let reason = config.packs_no_documents();
        assert!(
            self.documents.is_none() || reason.is_none(),
            "sequences of several documents: {}",
            reason.unwrap_or_default()
        );
        let [batch, seq] = self.input_ids.dims();
        let mask = self.attention_mask;
        let counted = Counted {
            targets: self.targets.reshape([batch * seq]),
            mask: mask.map(|mask| mask.reshape([batch * seq]).float().cast(FloatDType::F32)),
        };
        let tokens = Batch::new(self.input_ids);
        let (batch, seen) = match self.pictures {
            None => (tokens.at(self.position_ids), None),
            Some(pictures) => {
                let (position_ids, seen) = pictures.seen([batch, seq]);
                (tokens.at_axes(position_ids), Some(seen))
            }
        };
        let packed = Packed {
            batch,
            documents: self.documents.map(Arc::from),
            seen,
        };
        (packed, counted)
    }
}

impl ModelConfig {
    /// Returns why the model can't keep packed documents apart, or `None` if it can.
    pub fn packs_no_documents(&self) -> Option<&'static str> {
        let family = self.family();
        let caps = self
            .scores
            .is_some_and(|scores| scores.attn_logit_softcapping.is_some());
        if family.latent {
            Some("this model has latent attention, which takes one document")
        } else if family.altup {
            Some("this model has parallel residual streams, which take one document")
        } else if family.sinks {
            Some("attention with sinks takes one document")
        } else if caps {
            Some("attention with a cap of its scores takes one document")
        } else if family.window.chunked {
            Some("attention in chunks takes one document")
        } else if family.mixed_layers {
            Some("layers with a temperature count positions over a whole sequence")
        } else {
            None
        }
    }
}
