//! SentencePiece's BPE, `llama` in GGUF files: tokens with scores in place of merges.

use super::tokens::{NORMAL, Tokens};
use super::{Pairs, merges, pair, shown, steps};
use crate::splits::LONGEST;
use anyhow::{Context, bail, ensure};
use kernels_io::escape;
use kernels_models::gguf::Value;
use serde_json::{Value as Json, json};
use std::collections::HashSet;

/// Returns the scores of the tokens, and whether a text begins with a blank.
pub fn pairs(json: &Json, tokens: &Tokens) -> anyhow::Result<Pairs> {
    ensure!(
        json["model"]["ignore_merges"] != true,
        "field `model.ignore_merges`: true is not supported with a fallback to bytes"
    );
    let has_prefix = prefix(json)?;
    let scores = scores(&merges(json)?, tokens)?;
    let scores = scores.into_iter().map(Value::F32);
    Ok(vec![
        pair("model", Value::String("llama".into())),
        pair("pre", Value::String("default".into())),
        pair("add_space_prefix", Value::Flag(has_prefix)),
        pair("scores", Value::List(scores.collect())),
    ])
}

/// Returns whether a blank is put before each text. In both cases, blanks must become `▁`.
fn prefix(json: &Json) -> anyhow::Result<bool> {
    let blanks = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let prepend = json!({"type": "Prepend", "prepend": "▁"});
    // No blank is left for this step.
    let idle = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false});
    let normalizers = steps(&json["normalizer"], "normalizers");
    let before = steps(&json["pre_tokenizer"], "pretokenizers");
    let metaspace = |step: &Json| {
        let usual = step["type"] == "Metaspace" && step["replacement"] == "▁";
        match (
            usual && step["split"] == false,
            step["prepend_scheme"].as_str(),
        ) {
            (true, Some("always")) => Some(true),
            (true, Some("never")) => Some(false),
            _ => None,
        }
    };
    let before_is_idle = before.is_empty() || before == [&idle];
    let found = match (&normalizers[..], &before[..]) {
        ([first, second], _) if before_is_idle && [*first, *second] == [&prepend, &blanks] => {
            Some(true)
        }
        ([only], _) if before_is_idle && *only == &blanks => Some(false),
        ([], [only]) => metaspace(only),
        _ => None,
    };
    found.with_context(|| {
        format!(
            "fields `normalizer` and `pre_tokenizer`: llama.cpp does not prepare texts as {} and {} say",
            shown(&json["normalizer"]),
            shown(&json["pre_tokenizer"])
        )
    })
}

/// The number from which single precision does not hold every integer.
const ORDERED: usize = 1 << 24;

/// Returns scores by which SentencePiece joins tokens in the order of the merges: it joins, of all adjacent tokens, those
/// whose result has the highest score.
///
/// # Errors
/// Returns an error if no scores do, because merges to one token are apart, or because tokens that could be joined have
/// no merge. Returns an error, too, if a token is very long, because every way to divide it is tried.
fn scores(merges: &[(&str, &str)], tokens: &Tokens) -> anyhow::Result<Vec<f32>> {
    const FIELD: &str = "field `model.merges`";
    ensure!(
        merges.len() < ORDERED,
        "{FIELD}: scores order fewer than {ORDERED} merges, and these are {}",
        merges.len()
    );
    let mut texts = tokens.texts.iter().enumerate();
    if let Some((id, text)) = texts.find(|(_, text)| text.len() > LONGEST) {
        bail!(
            "field `model.vocab`: token {id} has {} bytes, more than {LONGEST}",
            text.len()
        );
    }
    let lowest = -(merges.len() as f32) - 1.0;
    let mut scores = vec![lowest; tokens.texts.len()];
    let mut seen = HashSet::new();
    let mut last = None;
    for (at, (left, right)) in merges.iter().enumerate() {
        let joined = format!("{left}{right}");
        let Some(id) = tokens.id(&joined) else {
            bail!(
                "{FIELD}: the result of number {at}, `{}`, is not a token",
                escape(&joined)
            );
        };
        if last != Some(id) && !seen.insert(id) {
            bail!(
                "{FIELD}: merges to `{}` are apart, and SentencePiece has one score for all of them; this tokenizer can't \
                 be written",
                escape(&joined)
            );
        }
        if last != Some(id) {
            scores[id] = -(at as f32);
        }
        last = Some(id);
    }
    let listed: HashSet<(&str, &str)> = merges.iter().copied().collect();
    let normal = tokens.texts.iter().zip(&tokens.kinds);
    for (text, _) in normal.filter(|(_, kind)| **kind == NORMAL) {
        for (at, _) in text.char_indices().skip(1) {
            let (left, right) = text.split_at(at);
            let both = [left, right].iter().all(|side| tokens.id(side).is_some());
            ensure!(
                !both || listed.contains(&(left, right)),
                "{FIELD}: `{}` and `{}` have no merge, and SentencePiece would join them; this tokenizer can't be written",
                escape(left),
                escape(right)
            );
        }
    }
    Ok(scores)
}
