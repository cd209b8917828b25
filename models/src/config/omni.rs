//! Sizes of the parts of Qwen's Omni models that speak: talkers, code predictors, and the transformers of vocoders.

use serde_json::{Map, Value, json};

use super::family::Family;
use super::fields::Fields;
use crate::ModelError;

/// The kinds of parts that speak, as families are of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speech {
    /// A talker whose embeddings are projected to the width of its layers (Qwen2.5-Omni).
    ProjectedTalker,
    /// A talker that projects states of the thinker (Qwen3-Omni).
    Talker,
    CodePredictor,
    Code2Wav,
}

/// The sizes of a part that speaks. Field names are those of `config.json`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum SpeechConfig {
    /// A talker whose embeddings are projected to the width of its layers (Qwen2.5-Omni).
    ProjectedTalker {
        /// Width of the embeddings, and of the thinker's states.
        embedding_size: usize,
    },
    /// A talker that projects states of the thinker (Qwen3-Omni).
    Talker {
        /// Width of the thinker's states.
        thinker_hidden_size: usize,
    },
    /// A predictor of the codes of one frame of sound, after the first.
    CodePredictor {
        /// Number of codes of a frame.
        num_code_groups: usize,
    },
    /// The transformer of a vocoder, from embeddings to hidden states.
    Code2Wav {
        /// The fresh scale of each layer's outputs.
        layer_scale_initial_scale: f64,
    },
}

const EMBEDDING: &str = "embedding_size";
const THINKER: &str = "thinker_hidden_size";
const GROUPS: &str = "num_code_groups";
const SCALE: &str = "layer_scale_initial_scale";

/// The most codes of a frame, many times those of any known model.
const MAX_GROUPS: usize = 1024;

impl Speech {
    /// Returns `true` for parts that turn token ids into logits of the next.
    pub(crate) fn is_language_model(self) -> bool {
        match self {
            Self::ProjectedTalker | Self::Talker => true,
            Self::CodePredictor | Self::Code2Wav => false,
        }
    }
}

impl SpeechConfig {
    /// Reads the fields of a part that speaks: `fields` are those of the decoder, and `whole` those of the part.
    pub(super) fn parse(
        whole: Fields<'_>,
        fields: Fields<'_>,
        family: &Family,
    ) -> Result<Option<Self>, ModelError> {
        let Some(kind) = family.speech else {
            return Ok(None);
        };
        let size = |fields: Fields<'_>, name| fields.required(name, fields.size(name)?);
        Ok(Some(match kind {
            Speech::ProjectedTalker => Self::ProjectedTalker {
                embedding_size: size(fields, EMBEDDING)?,
            },
            Speech::Talker => Self::Talker {
                thinker_hidden_size: size(whole, THINKER)?,
            },
            Speech::CodePredictor => Self::CodePredictor {
                num_code_groups: groups(fields)?,
            },
            Speech::Code2Wav => Self::Code2Wav {
                layer_scale_initial_scale: fields.number(SCALE)?.unwrap_or(0.01),
            },
        }))
    }

    /// Writes the fields of the decoder. Those of the part are kept with its other fields.
    pub(super) fn write(&self, object: &mut Map<String, Value>) {
        let (name, value) = match *self {
            Self::ProjectedTalker { embedding_size } => (EMBEDDING, json!(embedding_size)),
            Self::Talker { .. } => return,
            Self::CodePredictor { num_code_groups } => (GROUPS, json!(num_code_groups)),
            Self::Code2Wav {
                layer_scale_initial_scale,
            } => (SCALE, json!(layer_scale_initial_scale)),
        };
        object.insert(name.to_owned(), value);
    }

    /// Returns the number of weights beside the layers, of a vocabulary and layers of these sizes.
    pub(super) fn weights(&self, vocab: u128, hidden: u128, inter: u128) -> u128 {
        match *self {
            Self::ProjectedTalker { embedding_size } => embedding_size as u128 * (vocab + hidden),
            Self::Talker {
                thinker_hidden_size,
            } => 2 * inter * (thinker_hidden_size as u128 + hidden),
            Self::CodePredictor { num_code_groups } => 2 * num_code_groups as u128 * vocab * hidden,
            Self::Code2Wav { .. } => 0,
        }
    }
}

/// Reads the number of codes of a frame. The first is the talker's.
fn groups(fields: Fields<'_>) -> Result<usize, ModelError> {
    match fields.required(GROUPS, fields.size(GROUPS)?)? {
        groups @ 2..=MAX_GROUPS => Ok(groups),
        other => {
            let problem = format!("expected 2 to {MAX_GROUPS}, found {other}");
            Err(fields.error(GROUPS, problem))
        }
    }
}

/// The fields of the decoder that [`SpeechConfig`] reads.
pub(super) const KNOWN: &[&str] = &[EMBEDDING, GROUPS, SCALE];

/// Returns the name of the size of the vocabulary.
pub(super) fn vocabulary(family: &Family) -> &'static str {
    match family.speech {
        Some(Speech::Code2Wav) => "codebook_size",
        _ => "vocab_size",
    }
}
