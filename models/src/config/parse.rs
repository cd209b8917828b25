//! Parsing of `config.json`.

use serde_json::{Map, Value};

use super::family::{Families, Family};
use super::fields::Fields;
use super::{
    AltUpConfig, Architecture, LatentConfig, MixedConfig, ModelConfig, MoeConfig, RopeConfig,
    ScoreConfig, SpeechConfig, StoredDtype, WindowConfig, altup, latent, mixed, moe, nested, omni,
    quantisation, rewards, rope, scores, unsupported, window,
};
use crate::ModelError;

/// The fields that are read. All others are kept in `other`.
pub(super) const KNOWN: &[&str] = &[
    "architectures",
    "model_type",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rms_norm_eps",
    "tie_word_embeddings",
    "attention_bias",
    "attention_out_bias",
    "qkv_bias",
    "mlp_bias",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "initializer_range",
    "dtype",
    "torch_dtype",
    "hidden_act",
    "hidden_activation",
    // It is not kept, because saved weights are floats.
    quantisation::FIELD,
];

impl ModelConfig {
    /// Reads and checks the fields of `object`.
    pub(super) fn parse(
        fields: Fields<'_>,
        object: &Map<String, Value>,
        families: Families,
    ) -> Result<Self, ModelError> {
        let architecture = Architecture::parse(fields, families)?;
        let family = families.of(architecture);
        let is_reward_model = rewards::parse(fields, family)?;
        let defaults = family.defaults;
        unsupported::refuse(fields, family)?;
        let nested = family.nested.as_ref();
        let whole = nested::whole(object, nested);
        let outer = fields;
        quantisation::parse(fields, family)?;
        let (fields, object) = nested::text(fields, object, nested)?;
        if !fields.is_same(&outer) {
            quantisation::refuse_inside(fields)?;
        }
        unsupported::refuse(fields, family)?;
        refuse_other_activation(fields, family)?;

        let size = |name| fields.required(name, fields.size(name)?);
        let flag = |name, default| Ok::<_, ModelError>(fields.boolean(name)?.unwrap_or(default));
        let num_hidden_layers = size("num_hidden_layers")?;
        let altup = AltUpConfig::parse(fields, family, num_hidden_layers)?;
        let mixed = MixedConfig::parse(fields, family, num_hidden_layers)?;
        let sliding_window =
            WindowConfig::parse(fields, family, num_hidden_layers, mixed.as_ref())?;
        let windowed = sliding_window.is_some();
        let latent = LatentConfig::parse(fields, family)?;
        let (rope, local_rope) = rope::parse(fields, family)?;
        let hidden_size = size("hidden_size")?;
        let num_attention_heads = size("num_attention_heads")?;

        let config = Self {
            architecture,
            families,
            vocab_size: size(omni::vocabulary(family))?,
            hidden_size,
            intermediate_size: match &altup {
                Some(_) => {
                    let size = fields.common_size("intermediate_size", num_hidden_layers)?;
                    fields.required("intermediate_size", size)?
                }
                None => size("intermediate_size")?,
            },
            num_hidden_layers,
            num_attention_heads,
            num_key_value_heads: key_value_heads(fields, family, num_attention_heads)?,
            head_dim: match &latent {
                Some(latent) => rotated_part(fields, latent)?,
                None => head_dim(fields, family, hidden_size, num_attention_heads)?,
            },
            latent,
            max_position_embeddings: size("max_position_embeddings")?,
            rms_norm_eps: fields
                .number("rms_norm_eps")?
                .unwrap_or(defaults.rms_norm_eps),
            tie_word_embeddings: nested::tied(outer, fields, nested)?
                .unwrap_or(defaults.tie_word_embeddings),
            attention_bias: flag("attention_bias", defaults.attention_bias)?,
            attention_out_bias: flag("attention_out_bias", false)?,
            qkv_bias: flag("qkv_bias", defaults.qkv_bias)?,
            mlp_bias: flag("mlp_bias", false)?,
            use_qk_norm: match family.chosen_norms {
                true => flag("use_qk_norm", defaults.use_qk_norm)?,
                false => family.head_norms.is_some(),
            },
            altup,
            mixed,
            sliding_window,
            speech: SpeechConfig::parse(outer, fields, family)?,
            moe: MoeConfig::parse(fields, family)?,
            scores: ScoreConfig::parse(fields, family)?,
            initializer_range: fields.number("initializer_range")?.unwrap_or(0.02),
            dtype: StoredDtype::parse(outer)?,
            rewards: is_reward_model,
            whole,
            other: object
                .iter()
                .filter(|(name, _)| !is_known(family, windowed, &rope, name))
                .filter(|(name, _)| nested.is_none() || !nested::belongs_to_whole(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            rope,
            local_rope,
        };
        config.check(fields.origin())?;
        Ok(config)
    }
}

/// Returns `true` if a configuration of the family reads this field.
fn is_known(family: &Family, windowed: bool, rope: &RopeConfig, name: &str) -> bool {
    KNOWN.contains(&name)
        || (family.experts.as_ref())
            .is_some_and(|experts| moe::known(experts).any(|own| own == name))
        || (family.chosen_norms && name == "use_qk_norm")
        || (family.scores.is_some() && scores::KNOWN.contains(&name))
        || (family.altup && altup::KNOWN.contains(&name))
        || (family.speech.is_some() && omni::KNOWN.contains(&name))
        || name == omni::vocabulary(family)
        || (family.mixed_layers && mixed::KNOWN.contains(&name))
        || (family.latent && latent::KNOWN.contains(&name))
        || (windowed && window::KNOWN.contains(&name))
        || rope::known(rope, family.positions).contains(&name)
}

fn refuse_other_activation(fields: Fields<'_>, family: &Family) -> Result<(), ModelError> {
    let own = family.activation.name;
    for name in ["hidden_act", "hidden_activation"] {
        if let Some(activation) = fields.string(name)?
            && activation != own
        {
            let problem = format!("`{activation}` is not supported; supported: {own}");
            return Err(fields.error(name, problem));
        }
    }
    Ok(())
}

fn key_value_heads(fields: Fields<'_>, family: &Family, heads: usize) -> Result<usize, ModelError> {
    let constant = family.defaults.num_key_value_heads;
    or_derived(fields, family, "num_key_value_heads", heads, constant)
}

/// Reads `head_dim` of latent attention. `transformers` writes the width of the rotated part.
fn rotated_part(fields: Fields<'_>, latent: &LatentConfig) -> Result<usize, ModelError> {
    let rotated = latent.qk_rope_head_dim;
    match fields.size("head_dim")? {
        Some(other) if other != rotated => {
            let problem = format!("{other} contradicts `qk_rope_head_dim`, which is {rotated}");
            Err(fields.error("head_dim", problem))
        }
        _ => Ok(rotated),
    }
}

fn head_dim(
    fields: Fields<'_>,
    family: &Family,
    hidden_size: usize,
    heads: usize,
) -> Result<usize, ModelError> {
    if fields.size("head_dim")?.is_none() && !hidden_size.is_multiple_of(heads) {
        let problem = format!(
            "missing, and `hidden_size` {hidden_size} is not a multiple of `num_attention_heads` {heads}"
        );
        return Err(fields.error("head_dim", problem));
    }
    let constant = family.defaults.head_dim;
    or_derived(fields, family, "head_dim", hidden_size / heads, constant)
}

/// Reads a size that follows from others if it is absent. Some families use a constant instead. If the two differ, the
/// file is ambiguous and the size must be written.
fn or_derived(
    fields: Fields<'_>,
    family: &Family,
    name: &str,
    derived: usize,
    constant: Option<usize>,
) -> Result<usize, ModelError> {
    match (fields.size(name)?, constant) {
        (Some(size), _) => Ok(size),
        (None, Some(constant)) if derived != constant => {
            let problem = format!(
                "missing: it would be {derived} by the other sizes and {constant} by the default of {}; write it",
                family.class_name
            );
            Err(fields.error(name, problem))
        }
        (None, _) => Ok(derived),
    }
}
