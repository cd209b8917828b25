//! Layers that differ from each other by lists in the configuration (Llama 4).

use serde_json::{Map, Value, json};

use super::family::Family;
use super::fields::{Fields, integer};
use crate::ModelError;

/// The settings by which the layers of a model differ. Field names are those of `config.json`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MixedConfig {
    /// Width of the MLP of dense layers. That of experts is `intermediate_size`.
    pub intermediate_size_mlp: usize,
    /// The layers whose queries and keys are not rotated, counted from 0.
    pub unrotated_layers: Vec<usize>,
    /// The growth of scores with the position, in layers without rotation.
    pub temperature: Option<Temperature>,
}

/// The growth of scores with the position: queries are multiplied by `1 + attn_scale · ln(1 + n)`, where `n` is the number
/// of whole `floor_scale`s up to their position, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Temperature {
    /// The strength of the growth.
    pub attn_scale: f64,
    /// The number of positions between steps.
    pub floor_scale: f64,
}

/// The list of layers that are rotated: 1 for each that is, and 0 for others.
const ROTATED: &str = "no_rope_layers";

impl MixedConfig {
    /// Reads the fields of a family with such layers, for a model with `layers` layers.
    pub(super) fn parse(
        fields: Fields<'_>,
        family: &Family,
        layers: usize,
    ) -> Result<Option<Self>, ModelError> {
        if !family.mixed_layers {
            return Ok(None);
        }
        let width = "intermediate_size_mlp";
        let tuned = fields.boolean("attn_temperature_tuning")?.unwrap_or(true);
        let temperature = Temperature {
            attn_scale: fields.number("attn_scale")?.unwrap_or(0.1),
            floor_scale: fields.positive("floor_scale")?.unwrap_or(8192.0),
        };
        Ok(Some(Self {
            intermediate_size_mlp: fields.required(width, fields.size(width)?)?,
            unrotated_layers: unrotated(fields, layers)?,
            temperature: tuned.then_some(temperature),
        }))
    }

    pub(super) fn write(&self, layers: usize, object: &mut Map<String, Value>) {
        let mut set = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
        set("intermediate_size_mlp", json!(self.intermediate_size_mlp));
        let rotated = |layer| u8::from(!self.unrotated_layers.contains(&layer));
        set(ROTATED, json!((0..layers).map(rotated).collect::<Vec<_>>()));
        set("attn_temperature_tuning", json!(self.temperature.is_some()));
        if let Some(temperature) = &self.temperature {
            set("attn_scale", json!(temperature.attn_scale));
            set("floor_scale", integer(temperature.floor_scale));
        }
    }
}

/// The fields that [`MixedConfig`] reads.
pub(super) const KNOWN: &[&str] = &[
    "intermediate_size_mlp",
    ROTATED,
    "no_rope_layer_interval",
    "attn_temperature_tuning",
    "attn_scale",
    "floor_scale",
];

/// Reads the layers without rotation. An empty or absent list means every layer of an interval.
fn unrotated(fields: Fields<'_>, layers: usize) -> Result<Vec<usize>, ModelError> {
    let layers = layers.min(super::MAX_LAYERS);
    let list = fields.indices(ROTATED)?.unwrap_or_default();
    if list.is_empty() {
        let interval = fields.size("no_rope_layer_interval")?.unwrap_or(4);
        let own = |layer: &usize| (layer + 1).is_multiple_of(interval);
        return Ok((0..layers).filter(own).collect());
    }
    if list.len() < layers {
        let problem = format!(
            "has {} entries for {layers} `num_hidden_layers`",
            list.len()
        );
        return Err(fields.error(ROTATED, problem));
    }
    match list.iter().find(|&&entry| entry > 1) {
        Some(entry) => Err(fields.error(ROTATED, format!("expected 0 or 1, found {entry}"))),
        None => Ok((0..layers).filter(|&layer| list[layer] == 0).collect()),
    }
}
