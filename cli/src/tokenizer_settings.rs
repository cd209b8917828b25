//! The files beside a `tokenizer.json`: special tokens and the chat template.

use kernels_io::{FileError, Limit, escape, escape_path as path, read_text};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The settings of a tokenizer that `tokenizer.json` does not hold.
#[derive(Debug, Default)]
pub struct Settings {
    /// The special tokens by their names in templates, such as `eos_token`.
    pub special: BTreeMap<String, String>,
    /// The chat template and its file.
    pub template: Option<(PathBuf, String)>,
    /// The fields of `tokenizer_config.json`.
    pub fields: Map<String, Value>,
}

/// An error of these files.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file can't be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file does not hold what it should.
    #[error("{}: {}", path(.file), escape(.problem))]
    Content { file: PathBuf, problem: String },
}

impl SettingsError {
    fn content(file: &Path, problem: impl Into<String>) -> Self {
        Self::Content {
            file: file.into(),
            problem: problem.into(),
        }
    }
}

const LIMIT: Limit = Limit::mib("settings of a tokenizer", 64);

impl Settings {
    /// Reads the files of a folder, each of which may be absent.
    ///
    /// # Errors
    /// Returns an error if a file can't be read, is not what it should be, or asks for what is not supported.
    pub fn open(folder: &Path) -> Result<Self, SettingsError> {
        let file = folder.join("tokenizer_config.json");
        let fields = object(&file)?.unwrap_or_default();
        // Older checkpoints list special tokens there.
        let old = folder.join("special_tokens_map.json");
        let mut special = special_tokens(&old, &object(&old)?.unwrap_or_default())?;
        special.extend(special_tokens(&file, &fields)?);
        if fields.get("split_special_tokens") == Some(&Value::Bool(true)) {
            let problem = "field `split_special_tokens`: true is not supported, and would change the tokens; remove it, \
                           to read special tokens in texts as such";
            return Err(SettingsError::content(&file, problem));
        }
        Ok(Self {
            special,
            template: template(folder, &file, &fields)?,
            fields,
        })
    }
}

/// Reads a JSON object, if the file is there.
fn object(file: &Path) -> Result<Option<Map<String, Value>>, SettingsError> {
    let Some(text) = optional(file)? else {
        return Ok(None);
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Ok(Some(object)),
        Ok(_) => Err(SettingsError::content(file, "expected a JSON object")),
        Err(error) => Err(SettingsError::content(
            file,
            format!("not valid JSON: {error}"),
        )),
    }
}

fn optional(file: &Path) -> Result<Option<String>, SettingsError> {
    match kernels_io::is_there(file) {
        true => Ok(Some(read_text(file, LIMIT)?)),
        false => Ok(None),
    }
}

/// Returns the fields such as `eos_token`, whose value is a text or an object with the text as `content`.
fn special_tokens(
    file: &Path,
    fields: &Map<String, Value>,
) -> Result<BTreeMap<String, String>, SettingsError> {
    let mut tokens = BTreeMap::new();
    for (name, value) in fields {
        // `add_bos_token` and the like are switches.
        if !name.ends_with("_token") || value.is_boolean() || value.is_null() {
            continue;
        }
        let content = value.get("content").unwrap_or(value);
        let Some(token) = content.as_str() else {
            let problem = format!("field `{name}`: expected a text or an object with `content`");
            return Err(SettingsError::content(file, problem));
        };
        tokens.insert(name.clone(), token.to_owned());
    }
    Ok(tokens)
}

/// Returns the chat template: that of `chat_template.jinja`, `chat_template.json` or `tokenizer_config.json`.
fn template(
    folder: &Path,
    config: &Path,
    fields: &Map<String, Value>,
) -> Result<Option<(PathBuf, String)>, SettingsError> {
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
fn default_of(file: &Path, value: &Value) -> Result<String, SettingsError> {
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
            SettingsError::content(file, problem)
        })
}
