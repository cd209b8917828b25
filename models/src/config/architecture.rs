//! The model families of configurations.

use std::fmt;

use super::fields::Fields;
use crate::ModelError;
use crate::family::Family;
use crate::nearest;

/// Defines the enumeration of families, each with a name and its [`Family`].
macro_rules! architectures {
    ($($(#[$doc:meta])* $name:ident = $family:path,)+) => {
        /// A model family that can be built.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Architecture {
            $($(#[$doc])* $name,)+
        }

        impl Architecture {
            /// Every supported architecture.
            pub const ALL: [Self; [$(Self::$name),+].len()] = [$(Self::$name),+];

            pub(crate) fn family(self) -> &'static Family {
                match self {
                    $(Self::$name => &$family,)+
                }
            }
        }
    };
}

architectures! {
    /// `LlamaForCausalLM`: Llama 1 to 3 and everything that is written in that layout.
    Llama = crate::llama::FAMILY,
    /// `Qwen3ForCausalLM`: the dense Qwen3 models.
    Qwen3 = crate::qwen3::FAMILY,
    /// `Qwen2MoeForCausalLM`: mixtures of experts with a gated shared expert (Qwen1.5-MoE, Qwen2-MoE).
    Qwen2Moe = crate::qwen2_moe::FAMILY,
    /// `Qwen3MoeForCausalLM`: Qwen3 with mixtures of experts.
    Qwen3Moe = crate::qwen3_moe::FAMILY,
    /// `MixtralForCausalLM`: a mixture of experts in every layer.
    Mixtral = crate::mixtral::FAMILY,
    /// `Qwen2ForCausalLM`: the dense Qwen2 and Qwen2.5 models.
    Qwen2 = crate::qwen2::FAMILY,
    /// `MistralForCausalLM`: the dense Mistral models.
    Mistral = crate::mistral::FAMILY,
    /// `Gemma2ForCausalLM`: Gemma 2.
    Gemma2 = crate::gemma2::FAMILY,
    /// `Gemma3ForCausalLM`: the text models of Gemma 3.
    Gemma3 = crate::gemma3::FAMILY,
    /// `Gemma3nForCausalLM`: the text models of Gemma 3n.
    Gemma3n = crate::gemma3n::FAMILY,
    /// `Olmo2ForCausalLM`: OLMo 2.
    Olmo2 = crate::olmo2::FAMILY,
    /// `Glm4ForCausalLM`: the dense GLM-4 models.
    Glm4 = crate::glm4::FAMILY,
    /// `Phi3ForCausalLM`: Phi-3, Phi-3.5 and Phi-4, without `longrope` or with it.
    Phi3 = crate::phi3::FAMILY,
    /// `Glm4MoeForCausalLM`: GLM-4.5 and later mixtures of experts.
    Glm4Moe = crate::glm4_moe::FAMILY,
    /// `GptOssForCausalLM`: gpt-oss.
    GptOss = crate::gpt_oss::FAMILY,
    /// `SeedOssForCausalLM`: Seed-OSS. There is no dropout in training.
    SeedOss = crate::seed_oss::FAMILY,
    /// `Llama4ForCausalLM`: the text models of Llama 4.
    Llama4 = crate::llama4::FAMILY,
    /// `Qwen2_5_VLForConditionalGeneration`: the text model of Qwen2.5-VL.
    Qwen2_5Vl = crate::qwen_vl::QWEN2_5,
    /// `Qwen3VLForConditionalGeneration`: the text model of the dense Qwen3-VL models.
    Qwen3Vl = crate::qwen_vl::QWEN3,
    /// `Qwen3VLMoeForConditionalGeneration`: the text model of the sparse Qwen3-VL models.
    Qwen3VlMoe = crate::qwen_vl::QWEN3_MOE,
    /// `Glm4vMoeForConditionalGeneration`: the text model of GLM-4.5V.
    Glm4vMoe = crate::glm4v_moe::FAMILY,
    /// `DeepseekV2ForCausalLM`: DeepSeek-V2, with latent attention.
    DeepseekV2 = crate::deepseek_v2::FAMILY,
    /// `DeepseekV3ForCausalLM`: DeepSeek-V3 and R1, with latent attention.
    DeepseekV3 = crate::deepseek_v3::FAMILY,
}

impl Architecture {
    /// Returns the class name, as in `architectures`.
    pub fn class_name(self) -> &'static str {
        self.family().class_name
    }

    /// Returns the short name, as in `model_type`.
    pub fn model_type(self) -> &'static str {
        self.family().model_type
    }

    /// Returns the `model_type` of the text model, which differs if it is a part of another. [`semantics`](crate::semantics)
    /// has the rows of text models.
    pub fn text_model_type(self) -> &'static str {
        let family = self.family();
        family
            .nested
            .map_or(family.model_type, |nested| nested.model_type)
    }

    /// Returns `true` if layers of this family are, or can be, mixtures of experts.
    pub fn has_experts(self) -> bool {
        self.family().experts.is_some()
    }

    pub(super) fn parse(fields: Fields<'_>) -> Result<Self, ModelError> {
        let classes = fields.strings("architectures")?;
        let model_type = fields.string("model_type")?;
        let by_class = match classes.as_deref() {
            None => None,
            Some([class]) => Some(match Self::ALL.into_iter().find(|own| own.is_base(class)) {
                Some(own) => own,
                None => Self::find(fields, "architectures", class, Self::class_name)?,
            }),
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

    /// Returns `true` for the class of a base model that was saved alone, without the output projection.
    fn is_base(self, class: &str) -> bool {
        let own = self.class_name().split("For").next().unwrap_or_default();
        matches!(class.strip_prefix(own), Some("Model" | "TextModel"))
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
                let nearest = nearest::hint(wanted, Self::ALL.map(name));
                let known = Self::ALL.map(name).join(", ");
                fields.error(
                    field,
                    format!("`{wanted}` is not supported{nearest}; supported are {known}"),
                )
            })
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.class_name())
    }
}
