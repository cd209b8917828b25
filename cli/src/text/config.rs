//! `tokenizer_config.json` and the files beside it: special tokens and the chat template.

use super::{TextError, gguf};
use kernels_io::{Limit, read_text};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tokenizers::AddedToken;

/// The settings of a tokenizer that `tokenizer.json` does not hold.
#[derive(Debug, Default)]
pub(super) struct TokenizerConfig {
    /// The special tokens by their names in templates, such as `eos_token`.
    pub(super) special: BTreeMap<String, String>,
    /// The tokens that are added to those of `tokenizer.json`, by their ids.
    pub(super) added: BTreeMap<u32, AddedToken>,
    /// The chat template and its file.
    pub(super) template: Option<(PathBuf, String)>,
}

const LIMIT: Limit = Limit::mib("settings of a tokenizer", 64);

impl TokenizerConfig {
    /// Reads the files of a folder, each of which may be absent, or a GGUF file. Beside a GGUF file, the files are read if
    /// `tokenizer.json` is there; what they don't say is in the GGUF file.
    pub(super) fn open(path: &Path) -> Result<Self, TextError> {
        let folder = gguf::folder(path);
        let inside = kernels_models::gguf::find(path)?;
        let mut config = match &inside {
            Some(file) => gguf::config(file)?,
            None => Self::default(),
        };
        if inside.is_some() && !folder.join("tokenizer.json").exists() {
            return Ok(config);
        }
        let file = folder.join("tokenizer_config.json");
        let own = object(&file)?.unwrap_or_default();
        // Older checkpoints list special tokens there.
        let old = folder.join("special_tokens_map.json");
        for (file, fields) in [
            (&old, object(&old)?.unwrap_or_default()),
            (&file, own.clone()),
        ] {
            config.special.extend(special_tokens(file, &fields)?);
        }
        if own.get("split_special_tokens") == Some(&Value::Bool(true)) {
            let problem = "field `split_special_tokens`: true is not supported, and would change the tokens; remove it, \
                           to read special tokens in texts as such";
            return Err(TextError::content(&file, problem));
        }
        config.added = added(&file, &own)?;
        config.template = template(folder, &file, &own)?.or(config.template);
        Ok(config)
    }
}

/// Reads a JSON object, if the file is there.
fn object(file: &Path) -> Result<Option<Map<String, Value>>, TextError> {
    let Some(text) = optional(file)? else {
        return Ok(None);
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Ok(Some(object)),
        Ok(_) => Err(TextError::content(file, "expected a JSON object")),
        Err(error) => Err(TextError::content(file, format!("not valid JSON: {error}"))),
    }
}

fn optional(file: &Path) -> Result<Option<String>, TextError> {
    match kernels_io::is_there(file) {
        true => Ok(Some(read_text(file, LIMIT)?)),
        false => Ok(None),
    }
}

/// Returns the fields such as `eos_token`, whose value is a text or an object with the text as `content`.
fn special_tokens(
    file: &Path,
    fields: &Map<String, Value>,
) -> Result<BTreeMap<String, String>, TextError> {
    let mut tokens = BTreeMap::new();
    for (name, value) in fields {
        // `add_bos_token` and the like are switches.
        if !name.ends_with("_token") || value.is_boolean() || value.is_null() {
            continue;
        }
        let content = value.get("content").unwrap_or(value);
        let Some(token) = content.as_str() else {
            let problem = format!("field `{name}`: expected a text or an object with `content`");
            return Err(TextError::content(file, problem));
        };
        tokens.insert(name.clone(), token.to_owned());
    }
    Ok(tokens)
}

/// Returns the entries of `added_tokens_decoder`.
fn added(file: &Path, fields: &Map<String, Value>) -> Result<BTreeMap<u32, AddedToken>, TextError> {
    let wrong = |what: &str| {
        let problem = format!("field `added_tokens_decoder`: {what}");
        TextError::content(file, problem)
    };
    let Some(entries) = fields.get("added_tokens_decoder").filter(|v| !v.is_null()) else {
        return Ok(BTreeMap::new());
    };
    let entries = entries.as_object();
    let entries = entries.ok_or_else(|| wrong("expected an object of token ids"))?;
    let entry = |(id, token): (&String, &Value)| {
        let id = id.parse().map_err(|_| wrong("a key is not a token id"))?;
        let content = token.get("content").and_then(Value::as_str);
        let content = content.ok_or_else(|| wrong("a token has no `content`"))?;
        let is = |name| token.get(name).and_then(Value::as_bool);
        let special = is("special").unwrap_or(false);
        let token = AddedToken::from(content, special)
            .single_word(is("single_word").unwrap_or(false))
            .lstrip(is("lstrip").unwrap_or(false))
            .rstrip(is("rstrip").unwrap_or(false))
            .normalized(is("normalized").unwrap_or(!special));
        Ok((id, token))
    };
    entries.iter().map(entry).collect()
}

/// Returns the chat template: that of `chat_template.jinja`, `chat_template.json` or `tokenizer_config.json`.
fn template(
    folder: &Path,
    config: &Path,
    fields: &Map<String, Value>,
) -> Result<Option<(PathBuf, String)>, TextError> {
    let file = folder.join("chat_template.jinja");
    if let Some(text) = optional(&file)? {
        return Ok(Some((file, text)));
    }
    let file = folder.join("chat_template.json");
    if let Some(text) = object(&file)?.as_ref().and_then(|o| o.get("chat_template")) {
        return default_of(&file, text).map(|text| Some((file, text)));
    }
    match fields.get("chat_template") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => default_of(config, value).map(|text| Some((config.into(), text))),
    }
}

/// Returns the text of a template, or of the one named `default` among several.
fn default_of(file: &Path, value: &Value) -> Result<String, TextError> {
    let named = |entry: &&Value| entry.get("name").and_then(Value::as_str) == Some("default");
    let text = match value {
        Value::Array(several) => {
            let default = several.iter().find(named);
            default.and_then(|entry| entry.get("template"))
        }
        text => Some(text),
    };
    text.and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(|| {
            let problem =
                "field `chat_template`: expected a text, or a list with a template named `default`";
            TextError::content(file, problem)
        })
}
