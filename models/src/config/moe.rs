//! The mixture of experts of a configuration.

use burn_kernels::ops::moe::Routing;
use serde_json::{Map, Value, json};

use super::Refusal;
use super::family::{Experts, Family, Groups, Shared};
use super::fields::Fields;
use crate::ModelError;

/// The coefficient of the auxiliary loss in `transformers` if the configuration names none.
const DEFAULT_COEFFICIENT: f64 = 0.001;

/// The largest number of experts in all layers, nearly three times that of any known model. Before a checkpoint's tensors
/// are compared with the configuration, the names of all experts are listed.
const MAX_EXPERTS: usize = 65_536;

/// The mixture of experts of a model. Field names are those of `config.json`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MoeConfig {
    /// Number of experts in a sparse layer (`num_local_experts` in some files).
    pub num_experts: usize,
    /// Number of experts that each token goes to.
    pub num_experts_per_tok: usize,
    /// Width of each expert. Mixtral's files call it `intermediate_size`.
    pub moe_intermediate_size: usize,
    /// Width of the shared expert, which every token goes to (Qwen2-MoE).
    pub shared_expert_intermediate_size: Option<usize>,
    /// True if the weights of a token's experts sum to one, as Mixtral's always do.
    pub norm_topk_prob: bool,
    /// Distance between sparse layers: every `decoder_sparse_step`-th layer is sparse, counted from 1.
    pub decoder_sparse_step: usize,
    /// Layers that stay dense, counted from 0, in ascending order.
    pub mlp_only_layers: Vec<usize>,
    /// Coefficient of the load-balancing loss in the total loss.
    pub router_aux_loss_coef: f64,
    /// True if the load-balancing loss is part of the total loss.
    pub output_router_logits: bool,
    /// The groups of experts, in families that have them.
    pub groups: Option<GroupConfig>,
    /// The limit of gates and ups, in families that clamp them.
    pub swiglu_limit: Option<f64>,
    /// The sparse layers, counted from 0, in families that list them.
    pub moe_layers: Option<Vec<usize>>,
}

const METHOD: &str = "topk_method";
const GREEDY: &str = "greedy";
const LIMITED: &str = "group_limited_greedy";

/// The groups of experts that a token's choice is limited to, and other settings of families that have groups.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct GroupConfig {
    /// Number of groups. It divides the number of experts.
    pub n_group: usize,
    /// Number of groups that a token's experts are in.
    pub topk_group: usize,
    /// The factor of the weights of a token's experts.
    pub routed_scaling_factor: f64,
    /// Number of bottom layers that are dense.
    pub first_k_dense_replace: usize,
}

impl GroupConfig {
    fn parse(fields: Fields<'_>, groups: &Groups) -> Result<Self, ModelError> {
        let default = groups.default;
        let size = |name, default| Ok::<_, ModelError>(fields.size(name)?.unwrap_or(default));
        let limited = !groups.chosen || Self::limits(fields)?;
        Ok(Self {
            n_group: if limited {
                size("n_group", default.n_group)?
            } else {
                1
            },
            topk_group: if limited {
                size("topk_group", default.topk_group)?
            } else {
                1
            },
            routed_scaling_factor: fields
                .number("routed_scaling_factor")?
                .unwrap_or(default.routed_scaling_factor),
            first_k_dense_replace: fields
                .index("first_k_dense_replace")?
                .unwrap_or(default.first_k_dense_replace),
        })
    }

    /// Reads whether the choice is limited to groups, in a family that chooses.
    fn limits(fields: Fields<'_>) -> Result<bool, ModelError> {
        match fields.string(METHOD)?.unwrap_or(GREEDY) {
            GREEDY => Ok(false),
            LIMITED => Ok(true),
            other => {
                let problem = format!("`{other}` is not supported; supported: {GREEDY}, {LIMITED}");
                Err(fields.error(METHOD, problem))
            }
        }
    }

    fn write(&self, groups: &Groups, mut set: impl FnMut(&str, Value)) {
        set("n_group", json!(self.n_group));
        set("topk_group", json!(self.topk_group));
        set("routed_scaling_factor", json!(self.routed_scaling_factor));
        set("first_k_dense_replace", json!(self.first_k_dense_replace));
        if groups.chosen {
            set(
                METHOD,
                json!(if self.n_group == 1 { GREEDY } else { LIMITED }),
            );
        }
    }
}

impl MoeConfig {
    /// Returns `true` if a layer, counted from 0, is a mixture of experts.
    pub fn is_sparse(&self, layer: usize) -> bool {
        if let Some(layers) = &self.moe_layers {
            return layers.contains(&layer);
        }
        let dense = self.groups.map_or(0, |groups| groups.first_k_dense_replace);
        layer >= dense
            && !self.mlp_only_layers.contains(&layer)
            && (layer + 1).is_multiple_of(self.decoder_sparse_step)
    }

    /// Reads the fields of a family that has experts.
    pub(super) fn parse(fields: Fields<'_>, family: &Family) -> Result<Option<Self>, ModelError> {
        let Some(experts) = &family.experts else {
            return Ok(None);
        };
        let size = |name| fields.required(name, fields.size(name)?);
        let moe_intermediate_size = size(experts.width)?;
        let is_read = |name| family.refuses.iter().all(|(field, ..)| *field != name);
        let (step, dense) = ("decoder_sparse_step", "mlp_only_layers");
        Ok(Some(Self {
            num_experts: num_experts(fields, experts)?,
            num_experts_per_tok: size("num_experts_per_tok")?,
            moe_intermediate_size,
            shared_expert_intermediate_size: match experts.shared {
                Shared::None => None,
                Shared::Expert => Some(moe_intermediate_size),
                Shared::Width => Some(size("shared_expert_intermediate_size")?),
                // A product that is too large is an error among the sizes.
                Shared::Count => {
                    Some(size("n_shared_experts")?.saturating_mul(moe_intermediate_size))
                }
            },
            norm_topk_prob: fields
                .boolean("norm_topk_prob")?
                .unwrap_or(family.defaults.norm_topk_prob),
            decoder_sparse_step: match is_read(step) {
                true => fields.size(step)?.unwrap_or(1),
                false => 1,
            },
            mlp_only_layers: match is_read(dense) {
                true => dense_layers(fields)?,
                false => Vec::new(),
            },
            router_aux_loss_coef: fields
                .number("router_aux_loss_coef")?
                .unwrap_or(DEFAULT_COEFFICIENT),
            output_router_logits: fields.boolean("output_router_logits")?.unwrap_or(false),
            groups: match &experts.groups {
                Some(groups) => Some(GroupConfig::parse(fields, groups)?),
                None => None,
            },
            swiglu_limit: match experts.clamp {
                Some(limit) => Some(fields.positive("swiglu_limit")?.unwrap_or(limit)),
                None => None,
            },
            moe_layers: experts.listed.then(|| listed(fields)).transpose()?,
        }))
    }

    /// Returns the sizes under the names of the architecture's files.
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

    /// Returns the first contradiction between fields, as field and problem. Each size is already known to be valid.
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
        if let Some((groups, family)) = self.groups.zip(experts.groups) {
            let routing = Routing::new(family.key, self.num_experts, self.num_experts_per_tok)
                .and_then(|all| all.limited_to_groups(groups.n_group, groups.topk_group));
            if let Err(problem) = routing {
                return Some(("n_group", problem.to_string()));
            }
        }
        if let Some(layer) = self.mlp_only_layers.iter().find(|&&layer| layer >= layers) {
            let problem = format!(
                "layer {layer} does not exist: `num_hidden_layers` is {layers}, and the first is 0"
            );
            return Some(("mlp_only_layers", problem));
        }
        let sparse = (0..layers).filter(|&layer| self.is_sparse(layer)).count();
        if sparse.saturating_mul(self.num_experts) > MAX_EXPERTS {
            let problem = format!(
                "{} in each of {sparse} layers are too many: expected at most {MAX_EXPERTS} in all layers",
                self.num_experts
            );
            return Some((experts.count[0], problem));
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

    /// Writes the fields under the names that `transformers` 4 and 5 read, without those that the family refuses.
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
        match (self.shared_expert_intermediate_size, experts.shared) {
            (Some(width), Shared::Count) => {
                set(
                    "n_shared_experts",
                    json!(width / self.moe_intermediate_size),
                );
            }
            (Some(width), Shared::Width) => set("shared_expert_intermediate_size", json!(width)),
            _ => {}
        }
        if let Some((groups, family)) = self.groups.zip(experts.groups) {
            groups.write(&family, &mut set);
        }
        if let Some(layers) = &self.moe_layers {
            set("moe_layers", json!(layers));
        }
        if let Some(limit) = self.swiglu_limit {
            set("swiglu_limit", json!(limit));
        }
        set("norm_topk_prob", json!(self.norm_topk_prob));
        set("decoder_sparse_step", json!(self.decoder_sparse_step));
        set("mlp_only_layers", json!(self.mlp_only_layers));
        set("router_aux_loss_coef", json!(self.router_aux_loss_coef));
        set("output_router_logits", json!(self.output_router_logits));
    }
}

/// The fields that [`MoeConfig`] reads in a family with these experts.
pub(super) fn known(experts: &Experts) -> impl Iterator<Item = &'static str> {
    let groups: &[&str] = match experts.groups {
        Some(groups) if groups.chosen => CHOSEN_GROUPS,
        Some(_) => GROUPS,
        None => &[],
    };
    let clamp: &[&str] = match experts.clamp {
        Some(_) => &["swiglu_limit"],
        None => &[],
    };
    let shared: &[&str] = match experts.shared {
        Shared::Count => &["n_shared_experts"],
        Shared::Width | Shared::Expert | Shared::None => &[],
    };
    let listed: &[&str] = match experts.listed {
        true => &["moe_layers", "interleave_moe_layer_step"],
        false => &[],
    };
    let lists = [KNOWN, experts.count, groups, clamp, shared, listed];
    lists.into_iter().flatten().copied()
}

/// The fields of [`GroupConfig`].
const GROUPS: &[&str] = &[
    "n_group",
    "topk_group",
    "routed_scaling_factor",
    "first_k_dense_replace",
];

/// The same in a family that chooses whether there are groups.
const CHOSEN_GROUPS: &[&str] = &[
    "n_group",
    "topk_group",
    "routed_scaling_factor",
    "first_k_dense_replace",
    METHOD,
];

const KNOWN: &[&str] = &[
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

/// Reads the number of experts, under its only name, or under either of two or both.
fn num_experts(fields: Fields<'_>, experts: &Experts) -> Result<usize, ModelError> {
    if let [name @ "n_routed_experts"] = experts.count {
        return fields.required(name, fields.size(name)?);
    }
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

/// Reads the sparse layers of a family that lists them. Without a list, every layer of an interval is sparse.
fn listed(fields: Fields<'_>) -> Result<Vec<usize>, ModelError> {
    let layers = fields.size("num_hidden_layers")?.unwrap_or(0);
    if let Some(list) = fields.indices("moe_layers")? {
        return match list.iter().find(|&&layer| layer >= layers) {
            Some(layer) => {
                let problem = format!("layer {layer} does not exist: of {layers}, the first is 0");
                Err(fields.error("moe_layers", problem))
            }
            None => Ok(list),
        };
    }
    let step = fields.size("interleave_moe_layer_step")?.unwrap_or(1);
    let sparse = |layer: &usize| (layer + 1).is_multiple_of(step);
    Ok((0..layers.min(super::MAX_LAYERS)).filter(sparse).collect())
}

fn dense_layers(fields: Fields<'_>) -> Result<Vec<usize>, ModelError> {
    let mut layers = fields.indices("mlp_only_layers")?.unwrap_or_default();
    layers.sort_unstable();
    layers.dedup();
    Ok(layers)
}
