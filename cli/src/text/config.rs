//! `tokenizer_config.json` and the files beside it: special tokens and the chat template.

use super::{TextError, gguf};
use crate::tokenizer_settings::{Settings, SettingsError};
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
    /// Whether a byte-level tokenizer puts a space before a text, unless `tokenizer.json` says it.
    pub(super) prefix_space: Option<bool>,
}

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
        let settings = Settings::open(folder)?;
        config.special.extend(settings.special);
        let file = folder.join("tokenizer_config.json");
        config.added = added(&file, &settings.fields)?;
        config.prefix_space = settings.prefix_space;
        config.template = settings.template.or(config.template);
        Ok(config)
    }
}

impl From<SettingsError> for TextError {
    fn from(error: SettingsError) -> Self {
        match error {
            SettingsError::File(error) => Self::File(error),
            SettingsError::Content { file, problem } => Self::Content { file, problem },
        }
    }
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
