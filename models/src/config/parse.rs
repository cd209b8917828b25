//! The fields of `config.json`, one after the other.

use serde_json::{Map, Value};

use super::fields::{Fields, brief};
use super::{Architecture, ModelConfig, MoeConfig, RopeConfig, StoredDtype, moe, unsupported};
use crate::ModelError;

/// Fields that [`ModelConfig`] understands; all others are kept in `other`.
const KNOWN: &[&str] = &[
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
    "qkv_bias",
    "mlp_bias",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "initializer_range",
    "dtype",
    "torch_dtype",
    "hidden_act",
];

impl ModelConfig {
    /// Reads and checks the fields; `object` is where they are from.
    pub(super) fn parse(
        fields: Fields<'_>,
        object: &Map<String, Value>,
    ) -> Result<Self, ModelError> {
        let architecture = Architecture::parse(fields)?;
        unsupported::refuse(fields, architecture)?;
        refuse_other_activation(fields)?;
        refuse_sliding_window(fields, architecture)?;

        let size = |name| fields.required(name, fields.size(name)?);
        let flag = |name| Ok::<_, ModelError>(fields.boolean(name)?.unwrap_or(false));
        let num_hidden_layers = size("num_hidden_layers")?;
        refuse_layer_types(fields, num_hidden_layers)?;
        let hidden_size = size("hidden_size")?;
        let num_attention_heads = size("num_attention_heads")?;

        let config = Self {
            architecture,
            vocab_size: size("vocab_size")?,
            hidden_size,
            intermediate_size: size("intermediate_size")?,
            num_hidden_layers,
            num_attention_heads,
            num_key_value_heads: key_value_heads(fields, architecture, num_attention_heads)?,
            head_dim: head_dim(fields, architecture, hidden_size, num_attention_heads)?,
            max_position_embeddings: size("max_position_embeddings")?,
            rms_norm_eps: fields
                .number("rms_norm_eps")?
                .unwrap_or(default_eps(architecture)),
            tie_word_embeddings: flag("tie_word_embeddings")?,
            attention_bias: flag("attention_bias")?,
            qkv_bias: qkv_bias(fields, architecture)?,
            mlp_bias: flag("mlp_bias")?,
            moe: MoeConfig::parse(fields, architecture)?,
            rope: RopeConfig::parse(fields, architecture)?,
            initializer_range: fields.number("initializer_range")?.unwrap_or(0.02),
            dtype: StoredDtype::parse(fields)?,
            other: object
                .iter()
                .filter(|(name, _)| !is_known(architecture, name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        };
        config.check(fields.origin())?;
        Ok(config)
    }
}

/// Whether a field is one of those that a configuration of the architecture is made of.
fn is_known(architecture: Architecture, name: &str) -> bool {
    KNOWN.contains(&name) || (architecture.has_experts() && moe::KNOWN.contains(&name))
}

fn default_eps(architecture: Architecture) -> f64 {
    match architecture {
        Architecture::Mixtral => 1e-5,
        _ => 1e-6,
    }
}

/// Qwen2-MoE's projections of queries, keys and values have biases unless the file says otherwise.
fn qkv_bias(fields: Fields<'_>, architecture: Architecture) -> Result<bool, ModelError> {
    let default = architecture == Architecture::Qwen2Moe;
    Ok(fields.boolean("qkv_bias")?.unwrap_or(default))
}

fn refuse_other_activation(fields: Fields<'_>) -> Result<(), ModelError> {
    for name in ["hidden_act", "hidden_activation"] {
        if let Some(activation) = fields.string(name)?
            && activation != "silu"
        {
            let problem = format!("`{activation}` is not supported; supported is silu");
            return Err(fields.error(name, problem));
        }
    }
    Ok(())
}

/// Qwen files carry a `sliding_window` that only counts when `use_sliding_window` says so. Mixtral's
/// always counts, and Llama has no such field: some programs honour one there and others don't.
fn refuse_sliding_window(fields: Fields<'_>, architecture: Architecture) -> Result<(), ModelError> {
    if fields.boolean("use_sliding_window")? == Some(true) {
        return Err(fields.error("use_sliding_window", "true is not supported"));
    }
    if matches!(architecture, Architecture::Llama | Architecture::Mixtral)
        && let Some(window) = fields.value("sliding_window")
    {
        let problem = format!(
            "{} limits attention to a window, which is not supported",
            brief(window)
        );
        return Err(fields.error("sliding_window", problem));
    }
    Ok(())
}

fn refuse_layer_types(fields: Fields<'_>, layers: usize) -> Result<(), ModelError> {
    let Some(types) = fields.strings("layer_types")? else {
        return Ok(());
    };
    if types.len() != layers {
        let problem = format!(
            "has {} entries for {layers} `num_hidden_layers`",
            types.len()
        );
        return Err(fields.error("layer_types", problem));
    }
    match types.iter().find(|&&kind| kind != "full_attention") {
        Some(kind) => {
            let problem = format!("`{kind}` is not supported; supported is full_attention");
            Err(fields.error("layer_types", problem))
        }
        None => Ok(()),
    }
}

fn key_value_heads(
    fields: Fields<'_>,
    architecture: Architecture,
    heads: usize,
) -> Result<usize, ModelError> {
    let constant = match architecture {
        Architecture::Llama => None,
        Architecture::Qwen3 => Some(32),
        Architecture::Qwen2Moe => Some(16),
        Architecture::Qwen3Moe => Some(4),
        Architecture::Mixtral => Some(8),
    };
    let explicit = fields.size("num_key_value_heads")?;
    or_derived(
        fields,
        architecture,
        "num_key_value_heads",
        explicit,
        heads,
        constant,
    )
}

fn head_dim(
    fields: Fields<'_>,
    architecture: Architecture,
    hidden_size: usize,
    heads: usize,
) -> Result<usize, ModelError> {
    let explicit = fields.size("head_dim")?;
    if explicit.is_none() && !hidden_size.is_multiple_of(heads) {
        let problem = format!(
            "missing, and `hidden_size` {hidden_size} is not a multiple of `num_attention_heads` {heads}"
        );
        return Err(fields.error("head_dim", problem));
    }
    let constant = (architecture == Architecture::Qwen3).then_some(128);
    or_derived(
        fields,
        architecture,
        "head_dim",
        explicit,
        hidden_size / heads,
        constant,
    )
}

/// A size that follows from others when it is absent. Some architectures take a constant instead:
/// where the two differ the file is ambiguous, and guessing would change the model.
fn or_derived(
    fields: Fields<'_>,
    architecture: Architecture,
    name: &str,
    explicit: Option<usize>,
    derived: usize,
    constant: Option<usize>,
) -> Result<usize, ModelError> {
    match (explicit, constant) {
        (Some(size), _) => Ok(size),
        (None, Some(constant)) if derived != constant => {
            let problem = format!(
                "missing: it would be {derived} by the other sizes and {constant} by the default of {architecture}; write it"
            );
            Err(fields.error(name, problem))
        }
        (None, _) => Ok(derived),
    }
}
