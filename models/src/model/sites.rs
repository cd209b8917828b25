//! The sites that a model reaches, found without its weights.

use std::collections::BTreeSet;
use std::path::Path;

use burn::tensor::{Device, Int, Tensor};
use burn_kernels::policy::{self, Policy};
use burn_kernels::report;

use crate::config::{ModelConfig, SpeechConfig};
use crate::error::ModelError;
use crate::model::built::Model;
use crate::model::causal_lm::CausalLm;

/// The widest head of a model whose sites can be found.
const WIDEST: usize = 8192;

/// The number of tokens in each row of a small model's batch.
const TOKENS: usize = 4;

/// The window of a small model, which hides some of its [`TOKENS`].
const WINDOW: usize = 2;

impl ModelConfig {
    /// Returns the names of the sites that models of this configuration reach: in training if `device` has autodiff
    /// enabled, and otherwise in inference, decoding included.
    ///
    /// A small model of the same kind runs on the device, with kernels off. The names therefore include the sites in the
    /// bodies of others, which are reached where those others' kernels don't run. The [`report`] counts these
    /// calls, and calls of other threads at the same time are taken for the model's.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Field`] for heads that are too wide to try.
    pub fn reached_sites(&self, device: &Device) -> Result<BTreeSet<String>, ModelError> {
        if self.head_dim > WIDEST {
            let problem = format!("{} is more than the {WIDEST} of any model", self.head_dim);
            return Err(ModelError::field(
                Path::new("config.json"),
                "head_dim",
                problem,
            ));
        }
        let _policy = policy::scope(Policy::reference());
        let model = self.miniature().build(device);
        let before = calls();
        match &model {
            Model::Language(model) => run(model, device)?,
            Model::CodePredictor(_) | Model::Code2Wav(_) => run_part(&model, device),
        }
        let new = calls().into_iter().zip(before);
        let new = new.filter(|((_, after), (_, before))| after > before);
        Ok(new.map(|((name, _), _)| name).collect())
    }

    /// Returns a configuration of the same kind with small sizes, whose model reaches the same sites.
    fn miniature(&self) -> Self {
        let mut small = self.clone();
        // The sites of a score are those of hidden states.
        small.rewards = false;
        small.vocab_size = 16;
        small.hidden_size = 16;
        small.intermediate_size = 16;
        small.max_position_embeddings = self.max_position_embeddings.max(2 * TOKENS);
        small.num_key_value_heads = 1;
        small.num_attention_heads = match self.num_attention_heads == self.num_key_value_heads {
            true => 1,
            false => 2,
        };
        if self.altup.is_none() {
            small.num_hidden_layers = self.layers_of_every_kind();
        }
        if let Some(latent) = &mut small.latent {
            latent.q_lora_rank = latent.q_lora_rank.map(|_| 4);
            latent.kv_lora_rank = 4;
            latent.qk_nope_head_dim = 4;
            latent.v_head_dim = 4;
        }
        if let Some(altup) = &mut small.altup {
            altup.vocab_size_per_layer_input = small.vocab_size;
            altup.hidden_size_per_layer_input = 4;
            altup.laurel_rank = 4;
        }
        small.speech = small.speech.map(|speech| match speech {
            SpeechConfig::ProjectedTalker { .. } => {
                SpeechConfig::ProjectedTalker { embedding_size: 16 }
            }
            SpeechConfig::Talker { .. } => SpeechConfig::Talker {
                thinker_hidden_size: 16,
            },
            SpeechConfig::CodePredictor { .. } => {
                SpeechConfig::CodePredictor { num_code_groups: 3 }
            }
            own @ SpeechConfig::Code2Wav { .. } => own,
        });
        if let Some(mixed) = &mut small.mixed {
            mixed.intermediate_size_mlp = 16;
        }
        if let Some(linear) = &mut small.linear {
            linear.linear_num_key_heads = 1;
            linear.linear_num_value_heads = 2;
            linear.linear_key_head_dim = 4;
            linear.linear_value_head_dim = 4;
        }
        if let Some(window) = &mut small.sliding_window {
            window.size = WINDOW;
        }
        if let Some(moe) = &mut small.moe {
            moe.moe_intermediate_size = 8;
            moe.shared_expert_intermediate_size = moe.shared_expert_intermediate_size.map(|_| 8);
        }
        small
    }

    /// Returns the number of bottom layers among which every kind of layer is.
    fn layers_of_every_kind(&self) -> usize {
        let kind = |layer| {
            (
                self.window(layer).is_some(),
                self.is_linear(layer),
                self.is_sparse(layer),
                self.rotates(layer),
            )
        };
        let (mut kinds, mut needed) = (BTreeSet::new(), 1);
        for layer in 0..self.num_hidden_layers {
            if kinds.insert(kind(layer)) {
                needed = layer + 1;
            }
        }
        needed
    }
}

/// Runs everything that a model does in training or inference.
fn run(model: &CausalLm, device: &Device) -> Result<(), ModelError> {
    let ids = Tensor::<1, Int>::arange(0..2 * TOKENS as i64, device);
    let ids = ids.reshape([2, TOKENS]);
    model.losses(ids.clone(), None);
    if device.is_autodiff() {
        model.training_losses(ids, None);
        return Ok(());
    }
    let mut cache = model.config().cache();
    model.next(ids.clone(), &mut cache)?;
    cache.clear();
    model.next_padded(ids.clone(), &[TOKENS - 1, TOKENS], &mut cache)?;
    model.next(ids.narrow(1, 0, 1), &mut cache)?;
    Ok(())
}

/// Runs a part that is not a language model.
fn run_part(model: &Model, device: &Device) {
    let width = model.config().hidden_size;
    let embedded = |count| Tensor::<3>::zeros([2, count, width], device);
    match model {
        Model::CodePredictor(model) => {
            model.loss(embedded(2), Tensor::<2, Int>::zeros([2, 2], device));
        }
        Model::Code2Wav(model) => drop(model.forward(embedded(TOKENS))),
        Model::Language(_) => {}
    }
}

/// Returns the number of calls of every site, in a fixed order.
fn calls() -> Vec<(String, u64)> {
    let mut sites: Vec<(String, u64)> = Vec::new();
    for row in report::report().rows {
        match sites.last_mut() {
            Some((name, calls)) if *name == row.site => *calls += row.calls,
            _ => sites.push((row.site, row.calls)),
        }
    }
    sites
}
