//! The settings of Gemma 3n's parallel residual streams and its inputs of each layer.

use serde_json::{Map, Value, json};

use super::family::Family;
use super::fields::Fields;
use crate::ModelError;

/// The settings of a model with parallel residual streams. Field names are those of `config.json`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AltUpConfig {
    /// Number of tokens in the vocabulary of the layers' own embeddings.
    pub vocab_size_per_layer_input: usize,
    /// Width of each layer's own embedding.
    pub hidden_size_per_layer_input: usize,
    /// Number of residual streams.
    pub altup_num_inputs: usize,
    /// The stream that layers take, counted from 0.
    pub altup_active_idx: usize,
    /// True if the corrected stream is scaled before it meets the layer's own embedding.
    pub altup_correct_scale: bool,
    /// Number of top layers that use the keys and values of layers below.
    pub num_kv_shared_layers: usize,
    /// Width of the narrow path beside attention.
    pub laurel_rank: usize,
    /// The part of each layer's gates that is set to zero.
    pub activation_sparsity_pattern: Vec<f64>,
}

/// The number of bottom layers whose gates are sparse, in models with more, and the part that is set to zero.
const SPARSE: (usize, f64) = (10, 0.95);

impl AltUpConfig {
    /// Reads the fields of a family with such streams, for a model with `layers` layers.
    pub(super) fn parse(
        fields: Fields<'_>,
        family: &Family,
        layers: usize,
    ) -> Result<Option<Self>, ModelError> {
        if !family.altup {
            return Ok(None);
        }
        let size = |name, default| Ok::<_, ModelError>(fields.size(name)?.unwrap_or(default));
        let index = |name, default| Ok::<_, ModelError>(fields.index(name)?.unwrap_or(default));
        let config = Self {
            vocab_size_per_layer_input: size("vocab_size_per_layer_input", 262_144)?,
            hidden_size_per_layer_input: size("hidden_size_per_layer_input", 256)?,
            altup_num_inputs: size("altup_num_inputs", 4)?,
            altup_active_idx: index("altup_active_idx", 0)?,
            altup_correct_scale: fields.boolean("altup_correct_scale")?.unwrap_or(true),
            num_kv_shared_layers: index("num_kv_shared_layers", 15)?,
            laurel_rank: size("laurel_rank", 64)?,
            activation_sparsity_pattern: sparsity(fields, layers)?,
        };
        match config.problem(layers) {
            Some((field, problem)) => Err(fields.error(field, problem)),
            None => Ok(Some(config)),
        }
    }

    fn problem(&self, layers: usize) -> Option<(&'static str, String)> {
        if self.altup_num_inputs < 2 || self.altup_num_inputs > 64 {
            let problem = format!("expected 2 to 64, found {}", self.altup_num_inputs);
            return Some(("altup_num_inputs", problem));
        }
        if self.altup_active_idx >= self.altup_num_inputs {
            let problem = format!(
                "stream {} does not exist: of {}, the first is 0",
                self.altup_active_idx, self.altup_num_inputs
            );
            return Some(("altup_active_idx", problem));
        }
        if self.num_kv_shared_layers >= layers {
            let problem = format!(
                "{} of {layers} layers: none would have keys of its own",
                self.num_kv_shared_layers
            );
            return Some(("num_kv_shared_layers", problem));
        }
        None
    }

    /// Returns `true` if a layer of so many uses the keys and values of a layer below.
    pub(crate) fn shares(&self, layer: usize, layers: usize) -> bool {
        layer >= layers - self.num_kv_shared_layers
    }

    /// Returns an upper bound of the number of weights beside those of usual layers.
    pub(super) fn weights(&self, hidden: usize, layers: usize) -> u128 {
        let [own, vocab, rank, streams] = [
            self.hidden_size_per_layer_input,
            self.vocab_size_per_layer_input,
            self.laurel_rank,
            self.altup_num_inputs,
        ]
        .map(|size| size as u128);
        let (hidden, layers) = (hidden as u128, layers as u128);
        let layer = hidden * (2 * rank + 2 * own + streams + 4) + streams * streams * (streams + 1);
        layers * (layer + own * (vocab + hidden)) + 2 * streams * hidden * hidden
    }

    pub(super) fn write(&self, object: &mut Map<String, Value>) {
        let mut set = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
        set(
            "vocab_size_per_layer_input",
            json!(self.vocab_size_per_layer_input),
        );
        set(
            "hidden_size_per_layer_input",
            json!(self.hidden_size_per_layer_input),
        );
        set("altup_num_inputs", json!(self.altup_num_inputs));
        set("altup_active_idx", json!(self.altup_active_idx));
        set("altup_correct_scale", json!(self.altup_correct_scale));
        set("num_kv_shared_layers", json!(self.num_kv_shared_layers));
        set("laurel_rank", json!(self.laurel_rank));
        set(
            "activation_sparsity_pattern",
            json!(self.activation_sparsity_pattern),
        );
    }
}

/// The fields that [`AltUpConfig`] reads.
pub(super) const KNOWN: &[&str] = &[
    "vocab_size_per_layer_input",
    "hidden_size_per_layer_input",
    "altup_num_inputs",
    "altup_active_idx",
    "altup_correct_scale",
    "num_kv_shared_layers",
    "laurel_rank",
    "activation_sparsity_pattern",
];

fn sparsity(fields: Fields<'_>, layers: usize) -> Result<Vec<f64>, ModelError> {
    let name = "activation_sparsity_pattern";
    let Some(pattern) = fields.numbers(name)? else {
        let (sparse, part) = SPARSE;
        let of = |layer| {
            if layers > sparse && layer < sparse {
                part
            } else {
                0.0
            }
        };
        return Ok((0..layers.min(super::MAX_LAYERS)).map(of).collect());
    };
    if pattern.len() != layers {
        let problem = format!(
            "has {} entries for {layers} `num_hidden_layers`",
            pattern.len()
        );
        return Err(fields.error(name, problem));
    }
    match pattern.iter().find(|part| !(0.0..1.0).contains(*part)) {
        Some(part) => Err(fields.error(name, format!("expected 0 to below 1, found {part}"))),
        None => Ok(pattern),
    }
}
