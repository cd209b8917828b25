//! The mixture of experts of a configuration.

use serde_json::{Map, Value, json};

use super::Refusal;
use super::fields::Fields;
use crate::ModelError;
use crate::family::{Experts, Family};

/// What `transformers` weighs the auxiliary loss with when the configuration does not say.
const DEFAULT_COEFFICIENT: f64 = 0.001;

/// More experts in a layer than any known model has by two orders of magnitude. Their names are listed
/// before anything else would notice.
const MAX_EXPERTS: usize = 65_536;

/// The mixture of experts of a model. Field names are those of `config.json`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MoeConfig {
    /// Number of experts in a sparse layer (`num_local_experts` in some files).
    pub num_experts: usize,
    /// How many of them a token goes to.
    pub num_experts_per_tok: usize,
    /// Width of each expert. Mixtral's files call it `intermediate_size`.
    pub moe_intermediate_size: usize,
    /// Width of the expert that every token goes to, if there is one (Qwen2-MoE).
    pub shared_expert_intermediate_size: Option<usize>,
    /// Whether the weights of a token's experts are made to sum to one. Mixtral's always are.
    pub norm_topk_prob: bool,
    /// Every so many layers there is a sparse one, counting from 1.
    pub decoder_sparse_step: usize,
    /// Layers that are dense all the same, counting from 0; ascending.
    pub mlp_only_layers: Vec<usize>,
    /// What the load-balancing loss is multiplied by when it is added to the loss.
    pub router_aux_loss_coef: f64,
    /// Whether the load-balancing loss is a part of the loss.
    pub output_router_logits: bool,
}

impl MoeConfig {
    /// Whether a layer, counting from 0, is a mixture of experts.
    pub fn is_sparse(&self, layer: usize) -> bool {
        !self.mlp_only_layers.contains(&layer)
            && (layer + 1).is_multiple_of(self.decoder_sparse_step)
    }

    /// Reads the fields of a family that has experts.
    pub(super) fn parse(fields: Fields<'_>, family: &Family) -> Result<Option<Self>, ModelError> {
        let Some(experts) = &family.experts else {
            return Ok(None);
        };
        let size = |name| fields.required(name, fields.size(name)?);
        let shared = || size("shared_expert_intermediate_size");
        Ok(Some(Self {
            num_experts: num_experts(fields, experts)?,
            num_experts_per_tok: size("num_experts_per_tok")?,
            moe_intermediate_size: size(experts.width)?,
            shared_expert_intermediate_size: experts.shared.then(shared).transpose()?,
            norm_topk_prob: fields
                .boolean("norm_topk_prob")?
                .unwrap_or(family.defaults.norm_topk_prob),
            decoder_sparse_step: fields.size("decoder_sparse_step")?.unwrap_or(1),
            mlp_only_layers: dense_layers(fields)?,
            router_aux_loss_coef: fields
                .number("router_aux_loss_coef")?
                .unwrap_or(DEFAULT_COEFFICIENT),
            output_router_logits: fields.boolean("output_router_logits")?.unwrap_or(false),
        }))
    }

    /// The sizes, by the names of the architecture's files.
    pub(super) fn sizes(&self, experts: &Experts) -> Vec<(&'static str, usize)> {
        let mut sizes = vec![
            (experts.count[0], self.num_experts),
            ("num_experts_per_tok", self.num_experts_per_tok),
            (experts.width, self.moe_intermediate_size),
            ("decoder_sparse_step", self.decoder_sparse_step),
        ];
        if let Some(width) = self.shared_expert_intermediate_size {
            sizes.push(("shared_expert_intermediate_size", width));
        }
        sizes
    }

    /// What is wrong with the fields together, as field and problem. Sizes are known to be sizes.
    pub(super) fn problem(
        &self,
        experts: &Experts,
        layers: usize,
    ) -> Option<(&'static str, String)> {
        if self.num_experts > MAX_EXPERTS {
            let problem = format!("expected at most {MAX_EXPERTS}, found {}", self.num_experts);
            return Some((experts.count[0], problem));
        }
        if self.num_experts_per_tok > self.num_experts {
            let problem = format!(
                "a token can't go to {} of {} experts (`{}`)",
                self.num_experts_per_tok, self.num_experts, experts.count[0]
            );
            return Some(("num_experts_per_tok", problem));
        }
        if let Some(layer) = self.mlp_only_layers.iter().find(|&&layer| layer >= layers) {
            let problem = format!(
                "there is no layer {layer}: `num_hidden_layers` is {layers}, and the first is 0"
            );
            return Some(("mlp_only_layers", problem));
        }
        if !(self.router_aux_loss_coef.is_finite() && self.router_aux_loss_coef >= 0.0) {
            let problem = format!(
                "expected a number from 0, found {}",
                self.router_aux_loss_coef
            );
            return Some(("router_aux_loss_coef", problem));
        }
        None
    }

    /// Writes the fields under the names that `transformers` 4 and 5 read, but those that the family
    /// refuses.
    pub(super) fn write(
        &self,
        experts: &Experts,
        refused: &[Refusal],
        object: &mut Map<String, Value>,
    ) {
        let mut set = |name: &str, value: Value| {
            if refused.iter().all(|(field, ..)| *field != name) {
                object.insert(name.to_owned(), value);
            }
        };
        for name in experts.count {
            set(name, json!(self.num_experts));
        }
        set("num_experts_per_tok", json!(self.num_experts_per_tok));
        set(experts.width, json!(self.moe_intermediate_size));
        if let Some(width) = self.shared_expert_intermediate_size {
            set("shared_expert_intermediate_size", json!(width));
        }
        set("norm_topk_prob", json!(self.norm_topk_prob));
        set("decoder_sparse_step", json!(self.decoder_sparse_step));
        set("mlp_only_layers", json!(self.mlp_only_layers));
        set("router_aux_loss_coef", json!(self.router_aux_loss_coef));
        set("output_router_logits", json!(self.output_router_logits));
    }
}

/// Fields that [`MoeConfig`] understands.
pub(super) const KNOWN: &[&str] = &[
    "num_experts",
    "num_local_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "norm_topk_prob",
    "decoder_sparse_step",
    "mlp_only_layers",
    "router_aux_loss_coef",
    "output_router_logits",
];

/// The number of experts, under either name or both.
fn num_experts(fields: Fields<'_>, experts: &Experts) -> Result<usize, ModelError> {
    let (old, new) = (
        fields.size("num_experts")?,
        fields.size("num_local_experts")?,
    );
    if let (Some(old), Some(new)) = (old, new)
        && old != new
    {
        let problem = format!("{new} contradicts `num_experts`, which is {old}");
        return Err(fields.error("num_local_experts", problem));
    }
    fields.required(experts.count[0], old.or(new))
}

fn dense_layers(fields: Fields<'_>) -> Result<Vec<usize>, ModelError> {
    let mut layers = fields.indices("mlp_only_layers")?.unwrap_or_default();
    layers.sort_unstable();
    layers.dedup();
    Ok(layers)
}
