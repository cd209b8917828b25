//! Models of every kind.

use burn::module::Module;
use burn::tensor::Device;

use crate::config::{ModelConfig, Speech};
use crate::model::causal_lm::CausalLm;
use crate::model::code_predictor::CodePredictor;
use crate::model::code2wav::Code2Wav;

/// A model of any kind; see [`load_part`](crate::load_part).
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "one a program; a box would save nothing that matters"
)]
pub enum Model {
    /// A language model: from token ids to logits.
    Language(CausalLm),
    /// A model of the codes of a frame of sound.
    CodePredictor(CodePredictor),
    /// The transformer of a vocoder.
    Code2Wav(Code2Wav),
}

impl Model {
    /// Returns the configuration that the model was built from.
    pub fn config(&self) -> &ModelConfig {
        match self {
            Self::Language(model) => model.config(),
            Self::CodePredictor(model) => model.config(),
            Self::Code2Wav(model) => model.config(),
        }
    }
}

impl ModelConfig {
    /// Creates a model as [`init`](Self::init) does, of any kind.
    pub(crate) fn build(&self, device: &Device) -> Model {
        match self.family().speech {
            Some(Speech::CodePredictor) => Model::CodePredictor(CodePredictor::new(self, device)),
            Some(Speech::Code2Wav) => Model::Code2Wav(Code2Wav::new(self, device)),
            Some(Speech::Talker | Speech::ProjectedTalker) | None => {
                Model::Language(self.init(device))
            }
        }
    }
}
