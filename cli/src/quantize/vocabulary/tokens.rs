//! The tokens of a tokenizer, one for each embedding of the model.

use super::{Pairs, pair};
use crate::output;
use crate::tokenizer_settings::Settings;
use anyhow::{Context, bail, ensure};
use kernels_io::escape;
use kernels_models::gguf::Value;
use serde_json::Value as Json;
use std::collections::{HashMap, HashSet};

/// ggml's kinds of tokens.
pub const NORMAL: i32 = 1;
pub const UNKNOWN: i32 = 2;
pub const CONTROL: i32 = 3;
pub const USER_DEFINED: i32 = 4;
pub const UNUSED: i32 = 5;
pub const BYTE: i32 = 6;

/// The tokens in the order of their ids.
#[derive(Debug)]
pub struct Tokens {
    pub texts: Vec<String>,
    pub kinds: Vec<i32>,
    ids: HashMap<String, usize>,
}

/// A token that is found in a text before anything else.
struct Added<'a> {
    id: usize,
    text: &'a str,
    is_special: bool,
}

impl Tokens {
    /// Reads the tokens for a model with so many embeddings. Embeddings without a token get one that no text has, and
    /// added tokens without an embedding are left out, with a note.
    ///
    /// # Errors
    /// Returns an error if an id is used twice or is not a number, or if a token of the vocabulary has no embedding.
    pub fn read(json: &Json, settings: &Settings, embeddings: usize) -> anyhow::Result<Self> {
        let vocabulary = json.pointer("/model/vocab").and_then(Json::as_object);
        let vocabulary = vocabulary.context("field `model.vocab`: expected an object of ids")?;
        let fallback = json["model"]["byte_fallback"] == true;
        let unknown = json["model"]["unk_token"].as_str().filter(|_| fallback);
        let mut slots: Vec<Option<(&str, i32)>> = vec![None; embeddings];
        let added = added(json, settings)?;
        let texts_added: HashSet<&str> = added.iter().map(|token| token.text).collect();
        for (text, id) in vocabulary {
            let id = id.as_u64().and_then(|id| usize::try_from(id).ok());
            let id = id.with_context(|| {
                format!("token `{}`: its id is not a number from 0 on", escape(text))
            })?;
            let kind = match () {
                () if Some(text.as_str()) == unknown => UNKNOWN,
                () if fallback && is_byte(text) => BYTE,
                () => NORMAL,
            };
            match slots.get_mut(id) {
                Some(Some((other, _))) => bail!(
                    "tokens `{}` and `{}` have the same id, {id}",
                    escape(other),
                    escape(text)
                ),
                Some(slot) => *slot = Some((text, kind)),
                None if texts_added.contains(text.as_str()) => {}
                None => bail!(
                    "token `{}` has the id {id}, and the model {embeddings} embeddings (vocab_size); the tokenizer is \
                     not that of this model",
                    escape(text)
                ),
            }
        }
        for Added {
            id,
            text,
            is_special,
        } in added
        {
            let Some(slot) = slots.get_mut(id) else {
                output::note(format_args!(
                    "token `{}` has the id {id}, and the model {embeddings} embeddings (vocab_size); it is left out",
                    escape(text)
                ));
                continue;
            };
            let kind = match (is_special, slot.as_ref()) {
                (_, Some((other, _))) if *other != text => bail!(
                    "tokens `{}` and `{}` have the same id, {id}",
                    escape(other),
                    escape(text)
                ),
                (_, Some((_, UNKNOWN))) => UNKNOWN,
                (true, _) => CONTROL,
                // A text has blanks in their place, and they are merged as usual tokens.
                (false, _) if fallback && text.contains('▁') => NORMAL,
                (false, _) => USER_DEFINED,
            };
            *slot = Some((text, kind));
        }
        Self::of(slots)
    }

    fn of(slots: Vec<Option<(&str, i32)>>) -> anyhow::Result<Self> {
        let mut tokens = Self {
            texts: Vec::with_capacity(slots.len()),
            kinds: Vec::with_capacity(slots.len()),
            ids: HashMap::with_capacity(slots.len()),
        };
        for (id, slot) in slots.into_iter().enumerate() {
            let (text, kind) = match slot {
                Some((text, kind)) => (text.to_owned(), kind),
                None => (format!("[PAD{id}]"), UNUSED),
            };
            if let Some(other) = tokens.ids.insert(text.clone(), id) {
                bail!(
                    "tokens {other} and {id} have the same text, `{}`",
                    escape(&text)
                );
            }
            tokens.texts.push(text);
            tokens.kinds.push(kind);
        }
        Ok(tokens)
    }

    pub fn id(&self, text: &str) -> Option<usize> {
        self.ids.get(text).copied()
    }

    /// Returns the lists of texts and kinds.
    pub fn pairs(&self) -> Pairs {
        let texts = self.texts.iter().cloned().map(Value::String);
        let kinds = self.kinds.iter().map(|&kind| Value::Integer(kind.into()));
        vec![
            pair("tokens", Value::List(texts.collect())),
            pair("token_type", Value::List(kinds.collect())),
        ]
    }
}

/// Returns the added tokens of `tokenizer.json`, and those that `tokenizer_config.json` alone has.
fn added<'a>(json: &'a Json, settings: &'a Settings) -> anyhow::Result<Vec<Added<'a>>> {
    let token = |id: Option<u64>, token: &'a Json, field: &str| {
        let id = id.and_then(|id| usize::try_from(id).ok());
        let text = token.get("content").and_then(Json::as_str);
        let wrong = || format!("field `{field}`: a token has no id or no text");
        let (id, text) = id.zip(text).with_context(wrong)?;
        ensure!(!text.is_empty(), "field `{field}`: token {id} is empty");
        for setting in ["lstrip", "rstrip", "single_word"] {
            ensure!(
                token.get(setting) != Some(&Json::Bool(true)),
                "field `{field}`: token `{}` has `{setting}`, which GGUF files do not hold",
                escape(text)
            );
        }
        anyhow::Ok(Added {
            id,
            text,
            is_special: token.get("special") == Some(&Json::Bool(true)),
        })
    };
    let own = json.get("added_tokens").and_then(Json::as_array);
    let own = own.into_iter().flatten();
    let own = own.map(|own| token(own["id"].as_u64(), own, "added_tokens"));
    let field = "added_tokens_decoder";
    let others = settings.fields.get(field).and_then(Json::as_object);
    let others = others.into_iter().flatten();
    let others = others.map(|(id, own)| token(id.parse().ok(), own, field));
    own.chain(others).collect()
}

/// Returns whether a token stands for a byte, as `<0x0A>` does.
fn is_byte(text: &str) -> bool {
    let digits = text
        .strip_prefix("<0x")
        .and_then(|text| text.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok())
}
