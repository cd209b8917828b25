//! Which model family a configuration describes.

use std::fmt;

use super::fields::Fields;
use crate::ModelError;

/// A model family that can be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// `LlamaForCausalLM`: Llama 1 to 3 and everything that is written in that layout.
    Llama,
    /// `Qwen3ForCausalLM`: the dense Qwen3 models.
    Qwen3,
    /// `Qwen2MoeForCausalLM`: mixtures of experts with a gated shared expert (Qwen1.5-MoE, Qwen2-MoE).
    Qwen2Moe,
    /// `Qwen3MoeForCausalLM`: Qwen3 with mixtures of experts.
    Qwen3Moe,
    /// `MixtralForCausalLM`: a mixture of experts in every layer.
    Mixtral,
}

impl Architecture {
    /// Every supported architecture.
    pub const ALL: [Self; 5] = [
        Self::Llama,
        Self::Qwen3,
        Self::Qwen2Moe,
        Self::Qwen3Moe,
        Self::Mixtral,
    ];

    /// The class name, as in `architectures`.
    pub fn class_name(self) -> &'static str {
        match self {
            Self::Llama => "LlamaForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
            Self::Qwen2Moe => "Qwen2MoeForCausalLM",
            Self::Qwen3Moe => "Qwen3MoeForCausalLM",
            Self::Mixtral => "MixtralForCausalLM",
        }
    }

    /// The short name, as in `model_type`.
    pub fn model_type(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen3 => "qwen3",
            Self::Qwen2Moe => "qwen2_moe",
            Self::Qwen3Moe => "qwen3_moe",
            Self::Mixtral => "mixtral",
        }
    }

    /// Whether its layers are, or may be, mixtures of experts.
    pub fn has_experts(self) -> bool {
        match self {
            Self::Llama | Self::Qwen3 => false,
            Self::Qwen2Moe | Self::Qwen3Moe | Self::Mixtral => true,
        }
    }

    /// Whether each query and key head is normalised.
    pub(crate) fn normalises_heads(self) -> bool {
        match self {
            Self::Qwen3 | Self::Qwen3Moe => true,
            Self::Llama | Self::Qwen2Moe | Self::Mixtral => false,
        }
    }

    pub(super) fn parse(fields: Fields<'_>) -> Result<Self, ModelError> {
        let classes = fields.strings("architectures")?;
        let model_type = fields.string("model_type")?;
        let by_class = match classes.as_deref() {
            None => None,
            Some([class]) => Some(Self::find(
                fields,
                "architectures",
                class,
                Self::class_name,
            )?),
            Some(several) => {
                let problem = format!("expected one class, found {}", several.len());
                return Err(fields.error("architectures", problem));
            }
        };
        let by_type = model_type
            .map(|name| Self::find(fields, "model_type", name, Self::model_type))
            .transpose()?;
        match (by_class, by_type) {
            (Some(class), Some(kind)) if class != kind => {
                let problem = format!(
                    "`{}` contradicts `architectures`, which is {class}",
                    kind.model_type()
                );
                Err(fields.error("model_type", problem))
            }
            (class, kind) => fields.required("architectures", class.or(kind)),
        }
    }

    fn find(
        fields: Fields<'_>,
        field: &str,
        wanted: &str,
        name: fn(Self) -> &'static str,
    ) -> Result<Self, ModelError> {
        Self::ALL
            .into_iter()
            .find(|&known| name(known) == wanted)
            .ok_or_else(|| {
                let known = Self::ALL.map(name).join(", ");
                fields.error(
                    field,
                    format!("`{wanted}` is not supported; supported are {known}"),
                )
            })
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.class_name())
    }
}
