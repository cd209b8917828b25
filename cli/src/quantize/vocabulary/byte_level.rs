//! Byte-level BPE, `gpt2` in GGUF files.

use super::tokens::Tokens;
use super::{Pairs, merges, pair, shown, steps};
use crate::splits::SPLITS;
use anyhow::{Context, ensure};
use kernels_io::escape;
use kernels_models::gguf::Value;
use serde_json::{Value as Json, json};

/// Returns the name of the way to split a text, and the merges.
pub fn pairs(json: &Json, tokens: &Tokens) -> anyhow::Result<Pairs> {
    let found = steps(&json["pre_tokenizer"], "pretokenizers");
    let found: Vec<Json> = found.into_iter().map(plain).collect();
    let same = |known: Vec<Json>| known.iter().map(plain).eq(found.iter().cloned());
    let split = SPLITS.iter().find(|(_, split)| same(split.steps()));
    let (name, _) = split.with_context(|| {
        let names = SPLITS.map(|(name, _)| name).join(", ");
        format!(
            "field `pre_tokenizer`: texts are split in a way that has no name among those which are written: {names}"
        )
    })?;
    let normalizers = steps(&json["normalizer"], "normalizers");
    // llama.cpp does not normalise. Qwen's texts are in this form as a rule.
    let is_usual =
        normalizers.is_empty() || *name == "qwen2" && normalizers == [&json!({"type": "NFC"})];
    ensure!(
        is_usual,
        "field `normalizer`: {} is not supported for the pre-tokenizer `{name}`",
        shown(&json["normalizer"])
    );
    let (ignores, expected) = (
        json["model"]["ignore_merges"] == true,
        name.starts_with("llama"),
    );
    ensure!(
        ignores == expected,
        "field `model.ignore_merges`: {ignores} is not supported for the pre-tokenizer `{name}`"
    );
    let merges = merges(json)?.into_iter().map(|(left, right)| {
        for side in [left, right] {
            let known = tokens.id(side).is_some() && !side.contains(' ');
            ensure!(
                known,
                "field `model.merges`: `{}` is not a token",
                escape(side)
            );
        }
        Ok(Value::String(format!("{left} {right}")))
    });
    Ok(vec![
        pair("model", Value::String("gpt2".into())),
        pair("pre", Value::String((*name).into())),
        pair(
            "merges",
            Value::List(merges.collect::<anyhow::Result<_>>()?),
        ),
    ])
}

/// Returns a step without the field that changes no tokens, and with the one that older files leave out.
fn plain(step: &Json) -> Json {
    let mut step = step.clone();
    if let Some(fields) = step.as_object_mut() {
        fields.remove("trim_offsets");
        if fields.get("type").is_some_and(|kind| kind == "ByteLevel") {
            fields.entry("use_regex").or_insert(true.into());
        }
    }
    step
}
