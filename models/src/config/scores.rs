//! The scale and the caps of attention scores, and the cap of logits.

use serde_json::{Map, Value, json};

use super::family::Family;
use super::fields::{Fields, integer};
use crate::ModelError;

/// The scale and the caps of a model that chooses them. A cap `c` replaces `x` by `c · tanh(x / c)`. Field names are those
/// of `config.json`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ScoreConfig {
    /// Attention scores are the products of queries and keys divided by the square root of this number.
    pub query_pre_attn_scalar: f64,
    /// The cap of the scaled scores of attention, if there is one.
    pub attn_logit_softcapping: Option<f64>,
    /// The cap of the logits, if there is one.
    pub final_logit_softcapping: Option<f64>,
}

impl ScoreConfig {
    /// Reads the fields of a family that has them.
    pub(super) fn parse(fields: Fields<'_>, family: &Family) -> Result<Option<Self>, ModelError> {
        let Some(default) = family.scores else {
            return Ok(None);
        };
        // `null` means no cap; an absent one has a default.
        let cap = |name: &str, default| match fields.names().any(|known| known == name) {
            true => fields.positive(name),
            false => Ok(default),
        };
        let scalar = "query_pre_attn_scalar";
        let own = match family.honours.contains(&scalar) {
            true => fields.positive(scalar)?,
            false => None,
        };
        Ok(Some(Self {
            query_pre_attn_scalar: own.unwrap_or(default.query_pre_attn_scalar),
            attn_logit_softcapping: cap("attn_logit_softcapping", default.attn_logit_softcapping)?,
            final_logit_softcapping: cap(
                "final_logit_softcapping",
                default.final_logit_softcapping,
            )?,
        }))
    }

    /// Writes the fields that the family reads.
    pub(super) fn write(&self, honoured: &[&str], object: &mut Map<String, Value>) {
        let mut set = |name: &str, value: Value| {
            if honoured.contains(&name) {
                object.insert(name.to_owned(), value);
            }
        };
        set("query_pre_attn_scalar", integer(self.query_pre_attn_scalar));
        set("attn_logit_softcapping", json!(self.attn_logit_softcapping));
        set(
            "final_logit_softcapping",
            json!(self.final_logit_softcapping),
        );
    }
}

/// The fields that [`ScoreConfig`] reads.
pub(super) const KNOWN: &[&str] = &[
    "query_pre_attn_scalar",
    "attn_logit_softcapping",
    "final_logit_softcapping",
];
