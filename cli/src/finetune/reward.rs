//! Reward models: the checkpoint that a run begins with, and the token that pads texts.

use super::data::Groups;
use super::loss::LossArgs;
use super::model::{self, LoraArgs, Trained};
use crate::output;
use crate::text::Tokenizer;
use anyhow::{Context, ensure};
use burn::tensor::{Device, FloatDType};
use kernels_io::{Limit, escape_path};
use kernels_models::{AdapterConfig, CausalLm, ModelConfig, QuantisedWeights};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// Refuses adapters whose head would have no place.
///
/// # Errors
/// Returns that error.
pub fn check(loss: &LossArgs, lora: &LoraArgs, trained: &Trained) -> anyhow::Result<()> {
    let adapts = !matches!(trained, Trained::Whole);
    ensure!(
        !loss.is_reward() || !adapts || lora.merge,
        "an adapter has no place for the head of a reward model, which is trained as a whole; --merge saves the merged model"
    );
    ensure!(
        !loss.is_reward() || lora.frozen() != QuantisedWeights::Nf4,
        "--load-in-4bit is not an option of --loss reward: reward models are read as floats"
    );
    Ok(())
}

/// Returns the token that pads the texts of a reward model. No text ends with it: transformers takes the last token
/// that is another one for the end of a text.
pub fn padding(data: &Groups, config: &ModelConfig, tokenizer: &Tokenizer) -> Option<u32> {
    let answers = data.groups.iter().flat_map(|group| &group.answers);
    let ends: BTreeSet<u32> = answers
        .filter_map(|answer| answer.ids.last().copied())
        .collect();
    let special = |name| {
        tokenizer
            .special(name)
            .and_then(|token| tokenizer.id(token))
    };
    let names = ["pad_token", "unk_token", "bos_token"].into_iter();
    let mut known = config
        .padding_token()
        .into_iter()
        .chain(names.filter_map(special));
    let eos = special("eos_token");
    let is_fit =
        |id: &u32| (*id as usize) < config.vocab_size && !ends.contains(id) && eos != Some(*id);
    let found = known.find(is_fit);
    if found.is_none() {
        output::note(
            "warning: the tokenizer has no token that texts don't end with, so the reward model has no `pad_token_id`, and \
             other programs score one text at a time",
        );
    }
    found
}

/// Reads the checkpoint of a run, as [`model::load`] does. A language model gets a new head in place of its output
/// projection.
///
/// # Errors
/// Returns an error as `model::load` does, and for families without reward models.
pub fn load(
    folder: &Path,
    trained: &Trained,
    dtype: FloatDType,
    (device, seed): (&Device, u64),
    padding: Option<u32>,
) -> anyhow::Result<(ModelConfig, CausalLm, Option<AdapterConfig>)> {
    let stored = match trained {
        Trained::Whole => FloatDType::F32,
        _ => dtype,
    };
    let known = ModelConfig::of_checkpoint(folder)?;
    let (config, model) = match known.is_reward_model() {
        true => {
            let (config, model) = kernels_models::load_reward_model(folder, device, stored)?;
            (config.into_reward_model(padding)?, model)
        }
        false => {
            let (_, model) = kernels_models::load(folder, device, stored)?;
            let model = model.into_reward_model(padding, seed)?;
            (model.config().clone(), model)
        }
    };
    let (model, adapters) = model::adapt(model, trained, seed)?;
    Ok((config, model.with_trained_score(), adapters))
}

/// Names the padding token in the tokenizer's settings, so that it pads with that of the model.
///
/// # Errors
/// Returns an error if a file can't be read or written.
pub fn complete(config: &ModelConfig, folder: &Path) -> anyhow::Result<()> {
    let path = folder.join("tokenizer_config.json");
    let Some(padding) = config.padding_token().filter(|_| path.exists()) else {
        return Ok(());
    };
    let text = kernels_io::read_text(&path, Limit::mib("a tokenizer_config.json", 64))?;
    let mut fields: Map<String, Value> =
        serde_json::from_str(&text).with_context(|| escape_path(&path))?;
    let tokenizer = Tokenizer::open(folder, config.vocab_size)?;
    fields.insert("pad_token".into(), json!(tokenizer.decode_all(&[padding])?));
    let text = serde_json::to_string_pretty(&fields)?;
    output::write_file(&path, text.as_bytes())
}
