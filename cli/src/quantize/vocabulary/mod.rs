//! The tokenizer of a folder as the metadata of a GGUF file.
//!
//! llama.cpp must find the same tokens: other kinds of tokenizers, other ways to split a text, and other steps before
//! and after are refused.

mod byte_level;
mod sentence_piece;
mod special;
#[cfg(test)]
mod tests;
mod tokens;

use crate::tokenizer_settings::Settings;
use anyhow::{Context, ensure};
use kernels_io::{Limit, escape_path, shorten};
use kernels_models::ModelConfig;
use kernels_models::gguf::Value;
use serde_json::Value as Json;
use std::path::Path;
use tokens::Tokens;

/// Metadata by key.
pub type Pairs = Vec<(String, Value)>;

/// Returns the metadata of the tokenizer of a folder, for a model with this configuration.
///
/// # Errors
/// Returns an error that names the file and the field that can't be written.
pub fn pairs(folder: &Path, config: &ModelConfig) -> anyhow::Result<Pairs> {
    const LIMIT: Limit = Limit::mib("a tokenizer", 512);
    let file = folder.join("tokenizer.json");
    ensure!(
        kernels_io::is_there(&file),
        "{} has no tokenizer.json, and a GGUF file holds the tokenizer; \
         `AutoTokenizer.from_pretrained(…).save_pretrained(…)` of transformers writes one",
        escape_path(folder)
    );
    let shown = escape_path(&file);
    let text = kernels_io::read(&file, LIMIT)?;
    let json: Json = serde_json::from_slice(&text).with_context(|| shown.clone())?;
    let settings = Settings::open(folder)?;
    ensure!(
        settings.prefix_space != Some(true),
        "{}: field `add_prefix_space`: a GGUF file can't say that a space is put before a text",
        escape_path(&folder.join("tokenizer_config.json"))
    );
    let tokens =
        Tokens::read(&json, &settings, config.vocab_size).with_context(|| shown.clone())?;
    let mut pairs = of_kind(&json, &tokens).with_context(|| shown.clone())?;
    pairs.extend(tokens.pairs());
    let ends = kernels_models::Generation::open(folder, config)?.end_tokens;
    let special = special::pairs(&json, &settings, &tokens, &ends);
    pairs.extend(special.with_context(|| shown)?);
    if let Some((_, template)) = settings.template {
        pairs.push(pair("chat_template", Value::String(template)));
    }
    Ok(pairs)
}

/// Returns the metadata of the kind of tokenizer: how a text becomes tokens.
fn of_kind(json: &Json, tokens: &Tokens) -> anyhow::Result<Pairs> {
    let kind = json.pointer("/model/type").and_then(Json::as_str);
    // Older files don't name BPE.
    ensure!(
        kind.is_none_or(|kind| kind == "BPE"),
        "field `model.type`: {} is not written to GGUF files, only BPE is",
        shown(&json["model"]["type"])
    );
    for field in ["continuing_subword_prefix", "end_of_word_suffix"] {
        let value = &json["model"][field];
        let is_none = value.is_null() || value == "";
        ensure!(
            is_none,
            "field `model.{field}`: {} is not supported",
            shown(value)
        );
    }
    let dropout = &json["model"]["dropout"];
    ensure!(
        dropout.is_null() || *dropout == 0.0,
        "field `model.dropout`: {} is not supported, it leaves out merges at random",
        shown(dropout)
    );
    match json["model"]["byte_fallback"] == true {
        true => sentence_piece::pairs(json, tokens),
        false => byte_level::pairs(json, tokens),
    }
}

/// Returns the start of a value for a message.
fn shown(value: &Json) -> String {
    shorten(&value.to_string(), 200).into_owned()
}

fn pair(key: &str, value: Value) -> (String, Value) {
    // Templates are the only key outside of ggml's.
    let prefix = match key {
        "chat_template" => "tokenizer",
        _ => "tokenizer.ggml",
    };
    (format!("{prefix}.{key}"), value)
}

/// Returns the steps of a part of a `tokenizer.json`: those of a sequence, or the only one.
fn steps<'a>(part: &'a Json, list: &str) -> Vec<&'a Json> {
    match part.get(list).and_then(Json::as_array) {
        Some(steps) => steps.iter().collect(),
        None if part.is_null() => Vec::new(),
        None => vec![part],
    }
}

/// Returns the two sides of each merge, in their order.
fn merges(json: &Json) -> anyhow::Result<Vec<(&str, &str)>> {
    let merges = json.pointer("/model/merges").and_then(Json::as_array);
    let merges = merges.context("field `model.merges`: expected a list")?;
    merges.iter().enumerate().map(sides).collect()
}

fn sides((at, merge): (usize, &Json)) -> anyhow::Result<(&str, &str)> {
    let sides = match merge {
        Json::String(text) => text.split_once(' '),
        pair => pair[0].as_str().zip(pair[1].as_str()),
    };
    sides.with_context(|| format!("field `model.merges`: number {at} is not two tokens"))
}
