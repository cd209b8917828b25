//! The model families: for each, its data and the layers that it is made of.
//!
//! A family of known layers is data: a file here, and its lines below. `config` has the type of the data, and `layers` has
//! the layers. Neither names a family.

mod deepseek_v2;
mod deepseek_v3;
mod gemma2;
mod gemma3;
mod gemma3n;
mod glm4;
mod glm4_moe;
mod glm4v_moe;
mod gpt_oss;
mod llama;
mod llama4;
mod mistral;
mod mixtral;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen2_moe;
mod qwen3;
mod qwen3_5;
mod qwen3_moe;
mod qwen3_next;
mod qwen_omni;
mod qwen_vl;
mod seed_oss;

use std::fmt;
use std::path::Path;

use serde_json::{Map, Value};

use crate::config::family::{Families, Family};
use crate::config::{
    Architecture, Chosen, ModelConfig, OmniPart, PartOf, Qwen3MoeSize, Qwen3Size, Speech,
    VisionConfig, parse_fields,
};
use crate::error::ModelError;
use crate::layers::kinds::Layers;

/// Passes the list of families to a macro: the name of each, its data and its layers.
///
/// It is a macro so that the enumeration in `config` has the names without the families.
macro_rules! architectures {
    ($then:ident) => {
        $then! {
            /// `LlamaForCausalLM`: Llama 1 to 3 and everything that is written in that layout.
            Llama = llama::FAMILY, llama::LAYERS;
            /// `Qwen3ForCausalLM`: the dense Qwen3 models.
            Qwen3 = qwen3::FAMILY, qwen3::LAYERS;
            /// `Qwen2MoeForCausalLM`: mixtures of experts with a gated shared expert (Qwen1.5-MoE, Qwen2-MoE).
            Qwen2Moe = qwen2_moe::FAMILY, qwen2_moe::LAYERS;
            /// `Qwen3MoeForCausalLM`: Qwen3 with mixtures of experts.
            Qwen3Moe = qwen3_moe::FAMILY, qwen3_moe::LAYERS;
            /// `MixtralForCausalLM`: a mixture of experts in every layer.
            Mixtral = mixtral::FAMILY, mixtral::LAYERS;
            /// `Qwen2ForCausalLM`: the dense Qwen2 and Qwen2.5 models.
            Qwen2 = qwen2::FAMILY, qwen2::LAYERS;
            /// `MistralForCausalLM`: the dense Mistral models.
            Mistral = mistral::FAMILY, mistral::LAYERS;
            /// `Gemma2ForCausalLM`: Gemma 2.
            Gemma2 = gemma2::FAMILY, gemma2::LAYERS;
            /// `Gemma3ForCausalLM`: the text models of Gemma 3.
            Gemma3 = gemma3::FAMILY, gemma3::LAYERS;
            /// `Gemma3nForCausalLM`: the text models of Gemma 3n.
            Gemma3n = gemma3n::FAMILY, gemma3n::LAYERS;
            /// `Olmo2ForCausalLM`: OLMo 2.
            Olmo2 = olmo2::FAMILY, olmo2::LAYERS;
            /// `Glm4ForCausalLM`: the dense GLM-4 models.
            Glm4 = glm4::FAMILY, glm4::LAYERS;
            /// `Phi3ForCausalLM`: Phi-3, Phi-3.5 and Phi-4, without `longrope` or with it.
            Phi3 = phi3::FAMILY, phi3::LAYERS;
            /// `Glm4MoeForCausalLM`: GLM-4.5 and later mixtures of experts.
            Glm4Moe = glm4_moe::FAMILY, glm4_moe::LAYERS;
            /// `GptOssForCausalLM`: gpt-oss.
            GptOss = gpt_oss::FAMILY, gpt_oss::LAYERS;
            /// `SeedOssForCausalLM`: Seed-OSS, without dropout in training.
            SeedOss = seed_oss::FAMILY, seed_oss::LAYERS;
            /// `Llama4ForCausalLM`: the text models of Llama 4.
            Llama4 = llama4::FAMILY, llama4::LAYERS;
            /// `Qwen2_5_VLForConditionalGeneration`: Qwen2.5-VL.
            Qwen2_5Vl = qwen_vl::QWEN2_5, qwen_vl::QWEN2_5_LAYERS;
            /// `Qwen3VLForConditionalGeneration`: the dense Qwen3-VL models.
            Qwen3Vl = qwen_vl::QWEN3, qwen_vl::QWEN3_LAYERS;
            /// `Qwen3VLMoeForConditionalGeneration`: the sparse Qwen3-VL models.
            Qwen3VlMoe = qwen_vl::QWEN3_MOE, qwen_vl::QWEN3_MOE_LAYERS;
            /// `Qwen2_5OmniThinkerForConditionalGeneration`: the text model of Qwen2.5-Omni.
            Qwen2_5OmniThinker = qwen_omni::THINKER2_5, qwen_omni::THINKER2_5_LAYERS;
            /// `Qwen2_5OmniTalkerForConditionalGeneration`: Qwen2.5-Omni's language model of codes of sound.
            Qwen2_5OmniTalker = qwen_omni::TALKER2_5, qwen_omni::TALKER2_5_LAYERS;
            /// `Qwen3OmniMoeThinkerForConditionalGeneration`: the text model of Qwen3-Omni.
            Qwen3OmniMoeThinker = qwen_omni::THINKER3, qwen_omni::THINKER3_LAYERS;
            /// `Qwen3OmniMoeTalkerForConditionalGeneration`: Qwen3-Omni's language model of the first codes of sound.
            Qwen3OmniMoeTalker = qwen_omni::TALKER3, qwen_omni::TALKER3_LAYERS;
            /// `Qwen3OmniMoeTalkerCodePredictorModelForConditionalGeneration`: the model of the other codes, which is not a
            /// language model.
            Qwen3OmniMoeCodePredictor = qwen_omni::CODE_PREDICTOR, qwen_omni::CODE_PREDICTOR_LAYERS;
            /// `Qwen3OmniMoeCode2WavTransformerModel`: the transformer of Qwen3-Omni's vocoder, which is not a language
            /// model.
            Qwen3OmniMoeCode2Wav = qwen_omni::CODE2WAV, qwen_omni::CODE2WAV_LAYERS;
            /// `Glm4vMoeForConditionalGeneration`: the text model of GLM-4.5V.
            Glm4vMoe = glm4v_moe::FAMILY, glm4v_moe::LAYERS;
            /// `Qwen3NextForCausalLM`: Qwen3-Next, with gated delta rules and mixtures of experts.
            Qwen3Next = qwen3_next::FAMILY, qwen3_next::LAYERS;
            /// `Qwen3_5ForConditionalGeneration`: the dense Qwen3.5 models.
            Qwen3_5 = qwen3_5::WHOLE, qwen3_5::LAYERS;
            /// `Qwen3_5ForCausalLM`: the same without the whole model around it.
            Qwen3_5Text = qwen3_5::TEXT, qwen3_5::LAYERS;
            /// `Qwen3_5MoeForConditionalGeneration`: the sparse Qwen3.5 models.
            Qwen3_5Moe = qwen3_5::MOE_WHOLE, qwen3_5::LAYERS;
            /// `Qwen3_5MoeForCausalLM`: the same without the whole model around it.
            Qwen3_5MoeText = qwen3_5::MOE_TEXT, qwen3_5::LAYERS;
            /// `DeepseekV2ForCausalLM`: DeepSeek-V2, with latent attention.
            DeepseekV2 = deepseek_v2::FAMILY, deepseek_v2::LAYERS;
            /// `DeepseekV3ForCausalLM`: DeepSeek-V3 and R1, with latent attention.
            DeepseekV3 = deepseek_v3::FAMILY, deepseek_v3::LAYERS;
        }
    };
}

/// Defines the data and the layers of each architecture.
macro_rules! families {
    ($($(#[$doc:meta])* $name:ident = $family:path, $layers:path;)+) => {
        impl Architecture {
            pub(crate) fn family(self) -> &'static Family {
                match self {
                    $(Self::$name => &$family,)+
                }
            }

            pub(crate) fn layers(self) -> &'static Layers {
                match self {
                    $(Self::$name => &$layers,)+
                }
            }
        }
    };
}

architectures!(families);

impl VisionConfig {
    /// Reads the fields of the `config.json` of a vision tower that was saved alone. Returns `None` for another model.
    pub(crate) fn of_tower(
        object: &Map<String, Value>,
        origin: &Path,
    ) -> Result<Option<Self>, ModelError> {
        Self::alone(object, origin, ALL)
    }
}

/// The data of every family, for configurations.
const ALL: Families = Families(Architecture::family);

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

    /// Returns `true` for families of models from token ids to logits of the next token.
    pub fn is_language_model(self) -> bool {
        self.family().speech.is_none_or(Speech::is_language_model)
    }

    /// Returns `true` if layers of this family are, or can be, mixtures of experts.
    pub fn has_experts(self) -> bool {
        self.family().experts.is_some()
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.class_name())
    }
}

impl ModelConfig {
    /// Reads and checks a `config.json`.
    pub fn from_file(path: &Path) -> Result<Self, ModelError> {
        Self::from_fields(&Self::read_fields(path)?, path)
    }

    /// Reads and checks the text of a `config.json`. Errors name the file `origin`.
    pub fn from_json(json: &str, origin: &Path) -> Result<Self, ModelError> {
        Self::from_fields(&parse_fields(json, origin)?, origin)
    }

    /// Checks the fields of a `config.json`. Errors name the file `origin`.
    pub(crate) fn from_fields(
        object: &Map<String, Value>,
        origin: &Path,
    ) -> Result<Self, ModelError> {
        Self::of_part(object, origin, None).map(|(config, _)| config)
    }

    /// Checks the fields of a `config.json`, and returns the configuration of a part, if the checkpoint has several, with
    /// the start of the names of its tensors.
    ///
    /// # Errors
    ///
    /// Returns an error for a part that the checkpoint does not have.
    pub(crate) fn of_part(
        object: &Map<String, Value>,
        origin: &Path,
        part: Option<OmniPart>,
    ) -> Result<(Self, &'static str), ModelError> {
        let whole = qwen_omni::WHOLES.iter().find(|whole| whole.is(object));
        if let Some(whole) = whole {
            if let Some(Chosen { of, fields }) = whole.choose(object, origin, part)? {
                let config = Self::of_fields(&fields, origin, of.object, ALL)?;
                return Ok((config, of.tensors));
            }
            return Ok((Self::of_fields(object, origin, "", ALL)?, ""));
        }
        let config = Self::of_fields(object, origin, "", ALL)?;
        match part {
            Some(part) if config.places_in_wholes().all(|own| own.part != part) => {
                let problem = format!(
                    "{} is not a checkpoint with a {}; leave out the part, or name the checkpoint of the whole",
                    config.architecture,
                    part.name()
                );
                Err(ModelError::field(origin, "architectures", problem))
            }
            _ => Ok((config, "")),
        }
    }

    /// Returns the places of this model in checkpoints of several models.
    pub(crate) fn places_in_wholes(&self) -> impl Iterator<Item = &'static PartOf> {
        let class = self.family().class_name;
        let parts = qwen_omni::WHOLES.iter().flat_map(|whole| whole.parts);
        parts.filter(move |own| own.class == class)
    }

    /// Returns a Qwen3 configuration of the given sizes, with the family's usual settings for the rest.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Field`] for invalid sizes (see the fields of [`Qwen3Size`]). The error names `Qwen3Size`
    /// in place of a file.
    pub fn qwen3(size: Qwen3Size) -> Result<Self, ModelError> {
        Self::of_qwen3(size, ALL)
    }

    /// Returns a Qwen3-MoE configuration of the given sizes, with the family's usual settings for the rest: every layer
    /// is sparse, and the weights of a token's experts sum to one.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Field`] for invalid sizes (see the fields of [`Qwen3MoeSize`]). The error names
    /// `Qwen3MoeSize` in place of a file.
    pub fn qwen3_moe(size: Qwen3MoeSize) -> Result<Self, ModelError> {
        Self::of_qwen3_moe(size, ALL)
    }
}
