//! The tokens that begin and end texts.

use super::tokens::Tokens;
use super::{Pairs, pair, shown, steps};
use crate::tokenizer_settings::Settings;
use anyhow::{Context, bail, ensure};
use kernels_io::escape;
use kernels_models::gguf::{Value, ends_text};
use serde_json::{Value as Json, json};

/// Keys of special tokens by their names in a folder.
const NAMED: [(&str, &str); 3] = [
    ("bos_token", "bos_token_id"),
    ("unk_token", "unknown_token_id"),
    ("pad_token", "padding_token_id"),
];

/// Returns the ids of special tokens, and whether texts begin with one. `ends` are the tokens that end a
/// generated text.
pub fn pairs(
    json: &Json,
    settings: &Settings,
    tokens: &Tokens,
    ends: &[u32],
) -> anyhow::Result<Pairs> {
    let mut pairs = Vec::new();
    let mut id = |key: &str, id: usize| pairs.push(pair(key, Value::Integer(id as i128)));
    let named = |name: &str| {
        let text = settings.special.get(name);
        text.and_then(|text| tokens.id(text))
    };
    for (name, key) in NAMED {
        if let Some(own) = named(name) {
            id(key, own);
        }
    }
    let last = named("eos_token").or(ends.first().map(|&id| id as usize));
    let last = last.context(
        "no token ends a text: neither tokenizer_config.json nor config.json names one (`eos_token`, `eos_token_id`)",
    )?;
    id("eos_token_id", last);
    // Those that llama.cpp does not take for an end by their texts.
    let others = ends.iter().map(|&id| id as usize);
    let others = others.filter(|&id| {
        let text = tokens.texts.get(id);
        id != last && !text.is_some_and(|text| ends_text(text))
    });
    let others: Vec<usize> = others.collect();
    ensure!(
        others.len() <= 2,
        "a GGUF file has keys for three tokens that end a text, and the model has {} more; shorten `eos_token_id`",
        others.len() - 2
    );
    for (key, own) in ["eot_token_id", "eom_token_id"].into_iter().zip(others) {
        id(key, own);
    }
    let first = first(json)?;
    if let Some(text) = first {
        let own = named("bos_token");
        ensure!(
            own.is_some() && own == tokens.id(text),
            "field `post_processor`: texts begin with `{}`, which is not the `bos_token` of tokenizer_config.json",
            escape(text)
        );
    }
    pairs.push(pair("add_bos_token", Value::Flag(first.is_some())));
    pairs.push(pair("add_eos_token", Value::Flag(false)));
    Ok(pairs)
}

/// Returns the token that is put before each text.
///
/// # Errors
/// Returns an error if other tokens are added.
fn first(json: &Json) -> anyhow::Result<Option<&str>> {
    let steps = steps(&json["post_processor"], "processors");
    let mut added = steps.into_iter().filter(|step| step["type"] != "ByteLevel");
    let Some(step) = added.next() else {
        return Ok(None);
    };
    let sequence = &json!({"Sequence": {"id": "A", "type_id": 0}});
    let single = step["single"].as_array().map_or(&[][..], Vec::as_slice);
    match (step["type"].as_str(), single, added.next()) {
        (Some("TemplateProcessing"), [text], None) if text == sequence => Ok(None),
        (Some("TemplateProcessing"), [first, text], None) if text == sequence => {
            let first = first.pointer("/SpecialToken/id").and_then(Json::as_str);
            let first = first.context("field `post_processor.single`: expected a special token")?;
            Ok(Some(first))
        }
        _ => bail!(
            "field `post_processor`: only a token before each text is written to GGUF files, and this adds others: {}",
            shown(&json["post_processor"])
        ),
    }
}
