//! The transformer of Qwen3-Omni's vocoder.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::config::ModelConfig;
use crate::error::ModelError;
use crate::model::trunk::Trunk;

/// The transformer of Qwen3-Omni's vocoder, `pre_transformer`: from the mean of the embedded codes of each frame to hidden
/// states, which the vocoder's convolutions take.
///
/// [`load_part`](crate::load_part) reads it. The convolutions are not built.
#[derive(Module, Debug)]
pub struct Code2Wav {
    trunk: Trunk,
}

impl Code2Wav {
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Self {
        Self {
            trunk: Trunk::new(config, device),
        }
    }

    /// Returns the configuration that the model was built from.
    pub fn config(&self) -> &ModelConfig {
        self.trunk.config()
    }

    /// Returns the hidden states of embeddings, both `[b, s, hidden]`, in the weights' dtype. Each frame sees the frames of
    /// its window.
    ///
    /// # Panics
    ///
    /// Panics, or returns meaningless states, on embeddings that [`check_inputs`](Self::check_inputs) refuses.
    pub fn forward(&self, inputs_embeds: Tensor<3>) -> Tensor<3> {
        self.trunk.forward(inputs_embeds)
    }

    /// Checks the shape of embeddings.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Input`] for zero frames, for more than `max_position_embeddings`, and for another width.
    pub fn check_inputs(&self, inputs_embeds: &Tensor<3>) -> Result<(), ModelError> {
        let config = self.config();
        let longest = config.max_position_embeddings;
        let [batch, frames, width] = inputs_embeds.dims();
        let problem = if batch == 0 || frames == 0 {
            format!("shape [{batch}, {frames}, {width}] has no frames")
        } else if width != config.hidden_size {
            format!("expected a width of {}, found {width}", config.hidden_size)
        } else if frames > longest {
            format!(
                "{frames} frames are more than the configuration's max_position_embeddings, {longest}"
            )
        } else {
            return Ok(());
        };
        Err(ModelError::Input {
            input: "inputs_embeds",
            problem,
        })
    }
}
