//! The form that a model of the Hugging Face layout has in a GGUF file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::dialect::{DIALECTS, Dialect};
use super::names::{ROPE_FREQS, in_file};
use super::{Change, Contents, Metadata, Value, change, read_configuration, rope};
use crate::config::Architecture;
use crate::{ModelConfig, ModelError};

/// The contents of a model's GGUF file without the tokenizer: the metadata of its configuration, and the names and
/// layouts of its tensors, as in llama.cpp's own files.
#[derive(Debug)]
pub struct Form {
    dialect: &'static Dialect,
    config: ModelConfig,
    /// The file of the configuration, which errors name.
    origin: PathBuf,
    pairs: Vec<(String, Value)>,
    divisors: Option<Vec<f32>>,
}

impl Form {
    /// Returns the form of a model, whose configuration was read from the file `origin`.
    ///
    /// # Errors
    ///
    /// Returns an error if GGUF files of the family are not known, or if llama.cpp has no key for a setting.
    pub fn new(config: &ModelConfig, origin: &Path) -> Result<Self, ModelError> {
        let fail = |field: &str, problem: String| Err(ModelError::field(origin, field, problem));
        let Some(dialect) = dialect(config) else {
            let class = config.architecture.class_name();
            let known = DIALECTS.each_ref().map(|own| own.architecture.class_name());
            let known = known.join(", ");
            let problem = format!("{class} is not written to GGUF files; written are {known}");
            return fail("architectures", problem);
        };
        if let Some(window) = config.sliding_window.as_ref().filter(|_| !dialect.gemma) {
            let problem = format!(
                "{} is not written to GGUF files: llama.cpp has no window in models of the family `{}`; use null for \
                 attention to all tokens",
                window.size, dialect.name
            );
            return fail("sliding_window", problem);
        }
        let (rotary, divisors) = rope::written(config);
        let keys = keys(config).into_iter().chain(rotary);
        let of_family = |(key, value)| (format!("{}.{key}", dialect.name), value);
        let text = |key: &str, value: &str| (key.to_owned(), Value::String(value.into()));
        let mut pairs = vec![
            text("general.architecture", dialect.name),
            text("general.type", "model"),
        ];
        pairs.extend(keys.map(of_family));
        Ok(Self {
            dialect,
            config: config.clone(),
            origin: origin.into(),
            pairs,
            divisors,
        })
    }

    /// Returns the name of the family, the value of `general.architecture`.
    pub fn architecture(&self) -> &'static str {
        self.dialect.name
    }

    /// Returns the metadata, without those of the tokenizer.
    pub fn metadata(&self) -> &[(String, Value)] {
        &self.pairs
    }

    /// Returns the name in the file of a tensor of the Hugging Face layout, and the difference of its rows or numbers
    /// there. Returns `None` for a tensor that such files don't have.
    pub fn tensor(&self, name: &str) -> Option<(String, Change)> {
        let stored = in_file(name, self.dialect)?;
        let change = change(&stored, self.dialect, &self.config);
        Some((stored, change))
    }

    /// Returns a tensor that the file has and the Hugging Face layout has not: divisors of rotary frequencies.
    pub fn divisors(&self) -> Option<(&'static str, &[f32])> {
        let divisors = self.divisors.as_deref();
        divisors.map(|divisors| (ROPE_FREQS, divisors))
    }

    /// Compares the configuration that would be read from the file with that of the model. `shapes` are those of the
    /// file's tensors, in row-major order.
    ///
    /// # Errors
    ///
    /// Returns an error that names a field if the file would be that of another model.
    pub fn check(&self, shapes: BTreeMap<String, Vec<usize>>) -> Result<(), ModelError> {
        let draft = Draft {
            form: self,
            metadata: Metadata::of(&self.origin, self.pairs.iter().cloned()),
            shapes,
        };
        let (_, read) = read_configuration(&draft)?;
        match difference(&self.config, &read) {
            None => Ok(()),
            Some(field) => {
                let family = self.dialect.name;
                let problem =
                    format!("this value has no place in GGUF files of the family `{family}`");
                Err(ModelError::field(&self.origin, field, problem))
            }
        }
    }
}

/// Returns the family of files of a model. Those of Mistral are files of Llama.
fn dialect(config: &ModelConfig) -> Option<&'static Dialect> {
    let architecture = match config.architecture {
        Architecture::Mistral => Architecture::Llama,
        own => own,
    };
    let mut all = DIALECTS.iter();
    all.find(|own| own.architecture == architecture && !config.rewards)
}

/// Returns the keys of a configuration, without the family before them.
fn keys(config: &ModelConfig) -> Vec<(&'static str, Value)> {
    let mut keys = Vec::new();
    let mut size = |key, size: usize| keys.push((key, Value::Integer(size as i128)));
    size("vocab_size", config.vocab_size);
    size("context_length", config.max_position_embeddings);
    size("embedding_length", config.hidden_size);
    size("block_count", config.num_hidden_layers);
    size("feed_forward_length", config.intermediate_size);
    size("attention.head_count", config.num_attention_heads);
    size("attention.head_count_kv", config.num_key_value_heads);
    size("attention.key_length", config.head_dim);
    size("attention.value_length", config.head_dim);
    if let Some(window) = &config.sliding_window {
        size("attention.sliding_window", window.size);
    }
    let mut number = |key, number: f64| keys.push((key, Value::F32(number as f32)));
    number("attention.layer_norm_rms_epsilon", config.rms_norm_eps);
    let scores = config.scores;
    if let Some(cap) = scores.and_then(|scores| scores.attn_logit_softcapping) {
        number("attn_logit_softcapping", cap);
    }
    if let Some(cap) = scores.and_then(|scores| scores.final_logit_softcapping) {
        number("final_logit_softcapping", cap);
    }
    keys
}

/// A file that is to be written.
struct Draft<'a> {
    form: &'a Form,
    metadata: Metadata,
    shapes: BTreeMap<String, Vec<usize>>,
}

impl Contents for Draft<'_> {
    fn path(&self) -> &Path {
        &self.form.origin
    }

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn names(&self) -> Vec<&str> {
        self.shapes.keys().map(String::as_str).collect()
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        self.shapes.get(name).map(Vec::as_slice)
    }

    fn numbers(&self, name: &str) -> Result<Vec<f32>, ModelError> {
        match self.form.divisors() {
            Some((own, divisors)) if own == name => Ok(divisors.to_vec()),
            _ => Err(self.metadata.error(name, "no tensor has this name")),
        }
    }
}

/// Returns the first field whose value differs between two models.
fn difference(own: &ModelConfig, read: &ModelConfig) -> Option<&'static str> {
    // Files hold this number in single precision.
    let epsilon = |config: &ModelConfig| config.rms_norm_eps as f32;
    let same = [
        ("vocab_size", own.vocab_size == read.vocab_size),
        ("hidden_size", own.hidden_size == read.hidden_size),
        ("head_dim", own.head_dim == read.head_dim),
        (
            "tie_word_embeddings",
            own.tie_word_embeddings == read.tie_word_embeddings,
        ),
        ("rms_norm_eps", epsilon(own) == epsilon(read)),
        ("attention_bias", own.attention_bias == read.attention_bias),
        (
            "attention_bias",
            own.attention_out_bias == read.attention_out_bias,
        ),
        ("mlp_bias", own.mlp_bias == read.mlp_bias),
        ("sliding_window", own.sliding_window == read.sliding_window),
        ("query_pre_attn_scalar", own.scores == read.scores),
        ("rope_parameters", own.rope == read.rope),
        ("rope_parameters", own.local_rope == read.local_rope),
    ];
    same.iter().find(|(_, same)| !same).map(|(field, _)| *field)
}
