//! Layers with linear attention, which keeps a state in place of keys: gated delta rules (Qwen3-Next, Qwen3.5).

use serde_json::{Map, Value, json};

use super::MAX_LAYERS;
use super::family::Family;
use super::fields::Fields;
use crate::ModelError;

/// The sizes of linear attention, and the layers that have it. Field names are those of `config.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinearConfig {
    /// Number of heads of queries and keys. It divides the number of heads of values.
    pub linear_num_key_heads: usize,
    /// Number of heads of values. Each has a state, `[linear_key_head_dim, linear_value_head_dim]`.
    pub linear_num_value_heads: usize,
    /// Width of a head of queries or keys.
    pub linear_key_head_dim: usize,
    /// Width of a head of values.
    pub linear_value_head_dim: usize,
    /// Number of tokens that the convolution before queries, keys and values sees: the token itself and those before
    /// it.
    pub linear_conv_kernel_dim: usize,
    /// The layers with linear attention, counted from 0. The others have attention to all tokens.
    pub layers: Vec<usize>,
}

const FULL: &str = "full_attention";
const LINEAR: &str = "linear_attention";
const KINDS: &str = "layer_types";

/// The distance between layers without linear attention, in files without a list of layers. It is kept for saving.
const INTERVAL: &str = "full_attention_interval";

/// The numbers of weights of a convolution that its kernel has.
const TAPS: std::ops::RangeInclusive<usize> = 2..=8;

/// The fields that [`LinearConfig`] reads and writes.
pub(super) const KNOWN: &[&str] = &[
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_conv_kernel_dim",
    KINDS,
];

impl LinearConfig {
    /// Reads the fields of a family with such layers, for a model with `layers` layers.
    pub(super) fn parse(
        fields: Fields<'_>,
        family: &Family,
        layers: usize,
    ) -> Result<Option<Self>, ModelError> {
        if family.linear.is_none() {
            return Ok(None);
        }
        let size = |name| fields.required(name, fields.size(name)?);
        let config = Self {
            linear_num_key_heads: size("linear_num_key_heads")?,
            linear_num_value_heads: size("linear_num_value_heads")?,
            linear_key_head_dim: size("linear_key_head_dim")?,
            linear_value_head_dim: size("linear_value_head_dim")?,
            linear_conv_kernel_dim: size("linear_conv_kernel_dim")?,
            layers: linear_layers(fields, layers)?,
        };
        match config.problem() {
            Some((field, problem)) => Err(fields.error(field, problem)),
            None => Ok(Some(config)),
        }
    }

    fn problem(&self) -> Option<(&'static str, String)> {
        let (keys, values) = (self.linear_num_key_heads, self.linear_num_value_heads);
        if !values.is_multiple_of(keys) {
            let problem =
                format!("{keys} does not divide `linear_num_value_heads`, which is {values}");
            return Some(("linear_num_key_heads", problem));
        }
        if !TAPS.contains(&self.linear_conv_kernel_dim) {
            let (least, most) = (TAPS.start(), TAPS.end());
            let problem = format!(
                "expected {least} to {most}, found {}",
                self.linear_conv_kernel_dim
            );
            return Some(("linear_conv_kernel_dim", problem));
        }
        None
    }

    /// Returns an upper bound of the number of weights of a layer's linear attention. Each size fits in 31 bits.
    pub(super) fn weights(&self, hidden: usize) -> u128 {
        let [key_heads, heads, key, value, taps] = [
            self.linear_num_key_heads,
            self.linear_num_value_heads,
            self.linear_key_head_dim,
            self.linear_value_head_dim,
            self.linear_conv_kernel_dim,
        ]
        .map(|size| size as u128);
        let channels = 2 * key_heads * key + heads * value;
        let projected = channels + heads * value + 2 * heads;
        hidden as u128 * (projected + heads * value) + channels * taps + 2 * heads + value
    }

    pub(super) fn write(&self, layers: usize, object: &mut Map<String, Value>) {
        let mut set = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
        set("linear_num_key_heads", json!(self.linear_num_key_heads));
        set("linear_num_value_heads", json!(self.linear_num_value_heads));
        set("linear_key_head_dim", json!(self.linear_key_head_dim));
        set("linear_value_head_dim", json!(self.linear_value_head_dim));
        set("linear_conv_kernel_dim", json!(self.linear_conv_kernel_dim));
        let kind = |layer| match self.layers.contains(&layer) {
            true => LINEAR,
            false => FULL,
        };
        set(KINDS, json!((0..layers).map(kind).collect::<Vec<_>>()));
    }
}

/// Reads the layers with linear attention: those that a list names, or without a list all but every layer of an
/// interval, counted from 1.
fn linear_layers(fields: Fields<'_>, layers: usize) -> Result<Vec<usize>, ModelError> {
    let interval = fields.size(INTERVAL)?.unwrap_or(4);
    let Some(kinds) = fields.strings(KINDS)? else {
        // The number of layers is checked later; the limit keeps this list short.
        let linear = |layer: &usize| !(layer + 1).is_multiple_of(interval);
        return Ok((0..layers.min(MAX_LAYERS)).filter(linear).collect());
    };
    if kinds.len() != layers {
        let problem = format!(
            "has {} entries for {layers} `num_hidden_layers`",
            kinds.len()
        );
        return Err(fields.error(KINDS, problem));
    }
    match kinds.iter().find(|kind| ![FULL, LINEAR].contains(kind)) {
        Some(kind) => {
            let problem = format!("`{kind}` is not supported; supported: {FULL}, {LINEAR}");
            Err(fields.error(KINDS, problem))
        }
        None => Ok((0..layers).filter(|&at| kinds[at] == LINEAR).collect()),
    }
}
