//! `generation_config.json`: how a checkpoint's texts are generated.

use std::path::Path;

use kernels_io::Limit;
use serde_json::{Map, Value};

use super::{Generation, Sampling, TOP_K};
use crate::config::fields::{Fields, brief};
use crate::config::{ModelConfig, Neutral};
use crate::error::ModelError;

/// The fields that would change the tokens and are not implemented, with the value that has no effect.
#[rustfmt::skip] // one field, one line
const REFUSED: &[(&str, Neutral)] = &[
    ("num_beams", Neutral::Number(1.0)),
    ("num_beam_groups", Neutral::Number(1.0)),
    ("penalty_alpha", Neutral::Number(0.0)),
    ("no_repeat_ngram_size", Neutral::Number(0.0)),
    ("encoder_no_repeat_ngram_size", Neutral::Number(0.0)),
    ("encoder_repetition_penalty", Neutral::Number(1.0)),
    ("bad_words_ids", Neutral::Empty),
    ("force_words_ids", Neutral::Empty),
    ("constraints", Neutral::Empty),
    ("sequence_bias", Neutral::Empty),
    ("min_length", Neutral::Number(0.0)),
    ("min_new_tokens", Neutral::Number(0.0)),
    ("forced_bos_token_id", Neutral::Nothing),
    ("forced_eos_token_id", Neutral::Nothing),
    ("exponential_decay_length_penalty", Neutral::Nothing),
    ("suppress_tokens", Neutral::Empty),
    ("begin_suppress_tokens", Neutral::Empty),
    ("guidance_scale", Neutral::Number(1.0)),
    ("watermarking_config", Neutral::Nothing),
    ("dola_layers", Neutral::Nothing),
    ("typical_p", Neutral::Number(1.0)),
    ("epsilon_cutoff", Neutral::Number(0.0)),
    ("eta_cutoff", Neutral::Number(0.0)),
    ("top_h", Neutral::Nothing),
    ("num_return_sequences", Neutral::Number(1.0)),
    ("stop_strings", Neutral::Empty),
];

impl Generation {
    /// Reads the settings of a checkpoint: its `generation_config.json`, or else the end tokens of its
    /// configuration. A GGUF file has only these.
    ///
    /// `eos_token_id`, `max_new_tokens`, `repetition_penalty`, `do_sample`, `temperature`, `top_k`, `top_p` and `min_p`
    /// are read. Sampling without a `top_k` draws from 50 tokens, as in transformers. `max_new_tokens` is 256 by
    /// default.
    ///
    /// # Errors
    ///
    /// Returns an error that names the file and the field for a value of the wrong type or outside its range, and for a
    /// field that would change the tokens and is not implemented.
    pub fn open(folder: &Path, config: &ModelConfig) -> Result<Self, ModelError> {
        const LIMIT: Limit = Limit::mib("a generation_config.json", 16);
        let file = folder.join("generation_config.json");
        if !kernels_io::is_there(&file) {
            let own = folder.join("config.json");
            return config.end_tokens(if own.exists() { &own } else { folder });
        }
        Self::from_json(&kernels_io::read_text(&file, LIMIT)?, &file, config)
    }

    /// Reads the text of a `generation_config.json`, as [`Generation::open`] does. Errors name the file `origin`.
    pub fn from_json(json: &str, origin: &Path, config: &ModelConfig) -> Result<Self, ModelError> {
        let root: Value = serde_json::from_str(json).map_err(|source| ModelError::Json {
            file: origin.into(),
            source,
        })?;
        let Some(object) = root.as_object() else {
            let problem = format!("expected an object, found {}", brief(&root));
            return Err(ModelError::field(origin, "(the whole file)", problem));
        };
        let settings = parse(Fields::new(origin, "", object), config.vocab_size)?;
        settings.check().map_err(|error| match error {
            ModelError::Setting { setting, problem } => ModelError::field(origin, setting, problem),
            other => other,
        })?;
        Ok(settings)
    }
}

fn parse(fields: Fields<'_>, vocab_size: usize) -> Result<Generation, ModelError> {
    for (name, neutral) in REFUSED {
        if let Some(value) = fields.value(name).filter(|value| !neutral.admits(value)) {
            let problem = format!(
                "{} is not supported, and would change the tokens; remove the field to generate without it",
                brief(value)
            );
            return Err(fields.error(name, problem));
        }
    }
    let default = Generation::default();
    let suggested = sampling(fields)?;
    let draws = fields.boolean("do_sample")?.unwrap_or(false);
    Ok(Generation {
        max_new_tokens: fields
            .size("max_new_tokens")?
            .unwrap_or(default.max_new_tokens),
        end_tokens: end_tokens(fields, vocab_size)?,
        repetition_penalty: fields
            .number("repetition_penalty")?
            .unwrap_or(default.repetition_penalty),
        sampling: draws.then(|| suggested.clone()),
        suggested,
    })
}

fn sampling(fields: Fields<'_>) -> Result<Sampling, ModelError> {
    let default = Sampling::default();
    let top_k = fields.index("top_k")?.unwrap_or(TOP_K);
    Ok(Sampling {
        temperature: fields.number("temperature")?.unwrap_or(default.temperature),
        // In files, 0 keeps all.
        top_k: (top_k > 0).then_some(top_k),
        top_p: fields.number("top_p")?.unwrap_or(default.top_p),
        min_p: fields.number("min_p")?.unwrap_or(default.min_p),
        seed: default.seed,
        first_place: default.first_place,
    })
}

/// Reads `eos_token_id`, one token or several. Those that the model can't write are left out with a remark, as
/// transformers ends at none of them.
fn end_tokens(fields: Fields<'_>, vocab_size: usize) -> Result<Vec<u32>, ModelError> {
    const FIELD: &str = "eos_token_id";
    let ids = match fields.value(FIELD) {
        None => return Ok(Vec::new()),
        Some(Value::Array(ids)) => ids.as_slice(),
        Some(id) => std::slice::from_ref(id),
    };
    let mut tokens = Vec::with_capacity(ids.len());
    for id in ids {
        if !id.is_i64() && !id.is_u64() {
            let problem = format!(
                "expected one token id or a list of them, found {}",
                brief(id)
            );
            return Err(fields.error(FIELD, problem));
        }
        let below = id.as_u64().filter(|&id| id < vocab_size as u64);
        match below.and_then(|id| u32::try_from(id).ok()) {
            Some(token) => tokens.push(token),
            None => {
                let remark = format!(
                    "the model has no token {}, as vocab_size is {vocab_size}; no text ends with it",
                    brief(id)
                );
                tracing::warn!("{}", fields.error(FIELD, remark));
            }
        }
    }
    Ok(tokens)
}

impl ModelConfig {
    /// Returns the default settings with the end tokens of the configuration.
    fn end_tokens(&self, file: &Path) -> Result<Generation, ModelError> {
        let of = |object: &Map<String, Value>| {
            end_tokens(Fields::new(file, "", object), self.vocab_size)
        };
        let [own, whole] = self.kept_fields();
        let own = of(own)?;
        let end_tokens = if own.is_empty() { of(whole)? } else { own };
        Ok(Generation {
            end_tokens,
            ..Generation::default()
        })
    }
}
