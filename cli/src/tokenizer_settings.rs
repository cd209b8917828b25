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
    /// Whether a byte-level tokenizer puts a space before a text, unless `tokenizer.json` says it.
    pub prefix_space: Option<bool>,
}

/// The classes that transformers builds from the vocabulary alone. Of `add_prefix_space`, that of `tokenizer_config.json`
/// counts then, and not that of `tokenizer.json`.
const BUILT_ANEW: [&str; 2] = ["GPT2Tokenizer", "Qwen2Tokenizer"];

/// The classes that leave the choice to the type of the model.
const OF_MODEL: [&str; 3] = ["", "PreTrainedTokenizer", "TokenizersBackend"];

/// The types of models that have `Qwen2Tokenizer`.
const OF_QWEN2: [&str; 11] = [
    "qwen2",
    "qwen2_5_omni",
    "qwen2_5_vl",
    "qwen2_moe",
    "qwen2_vl",
    "qwen3",
    "qwen3_moe",
    "qwen3_next",
    "qwen3_omni_moe",
    "qwen3_vl",
    "qwen3_vl_moe",
];

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
            prefix_space: prefix_space(folder, &file, &fields)?,
            fields,
        })
    }
}

/// Returns `add_prefix_space` if it counts.
fn prefix_space(
    folder: &Path,
    file: &Path,
    fields: &Map<String, Value>,
) -> Result<Option<bool>, SettingsError> {
    let text = |of: &Map<String, Value>, name: &str| {
        let text = of.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let class = text(fields, "tokenizer_class");
    let class = class.strip_suffix("Fast").unwrap_or(&class);
    let model = match OF_MODEL.contains(&class) {
        true => object(&folder.join("config.json"))?.unwrap_or_default(),
        false => Map::new(),
    };
    let is_built =
        BUILT_ANEW.contains(&class) || OF_QWEN2.contains(&text(&model, "model_type").as_str());
    match fields.get("add_prefix_space") {
        _ if !is_built => Ok(None),
        None | Some(Value::Null) => Ok(Some(false)),
        Some(Value::Bool(adds)) => Ok(Some(*adds)),
        Some(_) => Err(SettingsError::content(
            file,
            "field `add_prefix_space`: expected true or false",
        )),
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
