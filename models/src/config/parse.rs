//! The fields of `config.json`, one after the other.

use serde_json::{Map, Value};

use super::fields::{Fields, brief};
use super::{Architecture, ModelConfig, RopeConfig, StoredDtype, unsupported};
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
        unsupported::refuse(fields)?;
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
            rms_norm_eps: fields.number("rms_norm_eps")?.unwrap_or(1e-6),
            tie_word_embeddings: flag("tie_word_embeddings")?,
            attention_bias: flag("attention_bias")?,
            mlp_bias: flag("mlp_bias")?,
            rope: RopeConfig::parse(fields)?,
            initializer_range: fields.number("initializer_range")?.unwrap_or(0.02),
            dtype: StoredDtype::parse(fields)?,
            other: object
                .iter()
                .filter(|(name, _)| !KNOWN.contains(&name.as_str()))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        };
        config.check(fields.origin())?;
        Ok(config)
    }
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

/// Qwen3 files carry a `sliding_window` that only counts when `use_sliding_window` says so. Llama
/// has no such switch: some programs honour a `sliding_window` there and others don't.
fn refuse_sliding_window(fields: Fields<'_>, architecture: Architecture) -> Result<(), ModelError> {
    if fields.boolean("use_sliding_window")? == Some(true) {
        return Err(fields.error("use_sliding_window", "true is not supported"));
    }
    if architecture == Architecture::Llama
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
    let explicit = fields.size("num_key_value_heads")?;
    qwen3_default(
        fields,
        architecture,
        "num_key_value_heads",
        explicit,
        heads,
        32,
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
    qwen3_default(
        fields,
        architecture,
        "head_dim",
        explicit,
        hidden_size / heads,
        128,
    )
}

/// The value of a size that Llama derives from others when it is absent. Qwen3 takes a constant
/// instead: where the two differ the file is ambiguous, and guessing would change the model.
fn qwen3_default(
    fields: Fields<'_>,
    architecture: Architecture,
    name: &str,
    explicit: Option<usize>,
    derived: usize,
    constant: usize,
) -> Result<usize, ModelError> {
    match (explicit, architecture) {
        (Some(size), _) => Ok(size),
        (None, Architecture::Qwen3) if derived != constant => {
            let problem = format!(
                "missing: it would be {derived} by the other sizes and {constant} by Qwen3's default; write it"
            );
            Err(fields.error(name, problem))
        }
        (None, _) => Ok(derived),
    }
}
