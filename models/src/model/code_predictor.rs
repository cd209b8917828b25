//! Qwen3-Omni's model of the codes of one frame of sound, after the first.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use burn_kernels::nn::{Embedding, Linear};

use crate::config::{ModelConfig, SpeechConfig};
use crate::error::ModelError;
use crate::layers::blocks::{new_linear, new_weight};
use crate::model::causal_lm::check_values;
use crate::model::loss::loss_of_logits;
use crate::model::trunk::Trunk;

/// The tables of codes, and the layers.
#[derive(Module, Debug)]
struct CodeDecoder {
    /// A table for each code but the talker's.
    codec_embedding: Vec<Embedding>,
    trunk: Trunk,
}

/// Qwen3-Omni's model of the codes of one frame of sound, after the first, which the talker gives. A frame has
/// `num_code_groups` codes, each with a table and a head of its own.
///
/// [`load_part`](crate::load_part) reads it.
#[derive(Module, Debug)]
pub struct CodePredictor {
    model: CodeDecoder,
    /// A head for each code but the talker's.
    lm_head: Vec<Linear>,
}

impl CodePredictor {
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Self {
        let further = further(config);
        let (vocabulary, hidden) = (config.vocab_size, config.hidden_size);
        let table = |_| Embedding {
            weight: new_weight(config, [vocabulary, hidden], device),
        };
        let head = |_| new_linear(config, [hidden, vocabulary], false, device);
        Self {
            model: CodeDecoder {
                codec_embedding: (0..further).map(table).collect(),
                trunk: Trunk::new(config, device),
            },
            lm_head: (0..further).map(head).collect(),
        }
    }

    /// Returns the configuration that the model was built from.
    pub fn config(&self) -> &ModelConfig {
        self.model.trunk.config()
    }

    /// Returns the logits of the codes of frames after the first, `[b, num_code_groups - 1, vocab]`, in the weights' dtype.
    ///
    /// `first` `[b, 2, hidden]` is the talker's last hidden state and its embedding of the first code. `codes`
    /// `[b, num_code_groups - 1]` are the others. The logits of a code are those after the codes before it, so that the last
    /// of `codes` has no effect on them.
    ///
    /// # Panics
    ///
    /// Panics, or returns meaningless logits, on inputs that [`check_inputs`](Self::check_inputs) refuses.
    pub fn forward(&self, first: Tensor<3>, codes: Tensor<2, Int>) -> Tensor<3> {
        let tables = self.model.codec_embedding.iter().enumerate();
        // Nothing follows the last code.
        let seen = tables.take(self.lm_head.len() - 1);
        let embedded = seen.map(|(at, table)| table.forward(codes.clone().narrow(1, at, 1)));
        let inputs = std::iter::once(first).chain(embedded).collect();
        let hidden = self.model.trunk.forward(Tensor::cat(inputs, 1));
        let heads = self.lm_head.iter().enumerate();
        let logits = heads.map(|(at, head)| head.forward(hidden.clone().narrow(1, at + 1, 1)));
        Tensor::cat(logits.collect(), 1)
    }

    /// Returns the logits of [`forward`](Self::forward), and their mean cross-entropy with the codes, `[1]` in f32 (f64
    /// for f64 weights).
    ///
    /// # Panics
    ///
    /// Panics as [`forward`](Self::forward) does.
    pub fn loss(&self, first: Tensor<3>, codes: Tensor<2, Int>) -> (Tensor<3>, Tensor<1>) {
        let logits = self.forward(first, codes.clone());
        let [batch, count, vocabulary] = logits.dims();
        let rows = logits.clone().reshape([batch * count, vocabulary]);
        let loss = loss_of_logits(rows, codes.reshape([batch * count]));
        (logits, loss)
    }

    /// Checks shapes and values of inputs. This copies the codes to the host.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Input`] for other shapes than those of [`forward`](Self::forward), for zero frames, and
    /// for codes outside the vocabulary.
    pub fn check_inputs(
        &self,
        first: &Tensor<3>,
        codes: &Tensor<2, Int>,
    ) -> Result<(), ModelError> {
        let config = self.config();
        let [batch, _] = codes.dims();
        let expected = [batch, further(config)];
        let fail = |input, problem| Err(ModelError::Input { input, problem });
        if batch == 0 || codes.dims() != expected {
            let (count, found) = (expected[1], codes.dims());
            let problem =
                format!("expected shape [b, {count}] of one or more frames, found {found:?}");
            return fail("input_ids", problem);
        }
        let expected = [batch, 2, config.hidden_size];
        if first.dims() != expected {
            let problem = format!("expected shape {expected:?}, found {:?}", first.dims());
            return fail("inputs_embeds", problem);
        }
        check_values("input_ids", codes, config.vocab_size, "vocab_size")
    }
}

/// Returns the number of codes after the first.
fn further(config: &ModelConfig) -> usize {
    match config.speech {
        Some(SpeechConfig::CodePredictor { num_code_groups }) => num_code_groups - 1,
        _ => 0,
    }
}
