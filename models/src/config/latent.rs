//! The sizes of latent attention.

use serde_json::{Map, Value, json};

use super::family::Family;
use super::fields::Fields;
use crate::ModelError;

/// The sizes of latent attention, whose keys and values come from a narrow projection. Field names are those of
/// `config.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LatentConfig {
    /// Width from which queries are projected. Without it they are projected from the residual stream.
    pub q_lora_rank: Option<usize>,
    /// Width from which keys and values are projected.
    pub kv_lora_rank: usize,
    /// Width of the part of a query or key head that is not rotated.
    pub qk_nope_head_dim: usize,
    /// Width of the part that is rotated. All heads share that of the keys.
    pub qk_rope_head_dim: usize,
    /// Width of a value head.
    pub v_head_dim: usize,
}

impl LatentConfig {
    /// Reads the fields of a family with latent attention.
    pub(super) fn parse(fields: Fields<'_>, family: &Family) -> Result<Option<Self>, ModelError> {
        if !family.latent {
            return Ok(None);
        }
        let size = |name| fields.required(name, fields.size(name)?);
        // `null` means no rank, but an absent rank has a default in `transformers`.
        let rank = "q_lora_rank";
        let q_lora_rank = fields.size(rank)?;
        if !fields.names().any(|name| name == rank) {
            fields.required(rank, q_lora_rank)?;
        }
        Ok(Some(Self {
            q_lora_rank,
            kv_lora_rank: size("kv_lora_rank")?,
            qk_nope_head_dim: size("qk_nope_head_dim")?,
            qk_rope_head_dim: size("qk_rope_head_dim")?,
            v_head_dim: size("v_head_dim")?,
        }))
    }

    /// Returns the width of a query or key head.
    pub fn qk_head_dim(&self) -> usize {
        self.qk_nope_head_dim + self.qk_rope_head_dim
    }

    /// Returns an upper bound of the number of weights of one layer. Each size fits in 31 bits.
    pub(super) fn weights(&self, hidden: usize, heads: usize) -> u128 {
        let [queries, latent, rotated, values] = [
            self.q_lora_rank.unwrap_or(hidden),
            self.kv_lora_rank,
            self.qk_rope_head_dim,
            self.v_head_dim,
        ]
        .map(|size| size as u128);
        let (hidden, heads) = (hidden as u128, heads as u128);
        let head = self.qk_head_dim() as u128;
        hidden * (queries + latent + rotated)
            + heads * (queries * head + latent * (head + values) + values * hidden)
    }

    pub(super) fn write(&self, object: &mut Map<String, Value>) {
        let mut set = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
        set("q_lora_rank", json!(self.q_lora_rank));
        set("kv_lora_rank", json!(self.kv_lora_rank));
        set("qk_nope_head_dim", json!(self.qk_nope_head_dim));
        set("qk_rope_head_dim", json!(self.qk_rope_head_dim));
        set("v_head_dim", json!(self.v_head_dim));
    }
}

/// The fields that [`LatentConfig`] reads.
pub(super) const KNOWN: &[&str] = &[
    "q_lora_rank",
    "kv_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
];
