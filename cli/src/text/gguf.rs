//! The tokenizer in the metadata of a GGUF file, as a `tokenizer.json` and a `tokenizer_config.json` have it.
//!
//! Two kinds are read: byte-level BPE (`gpt2`), with the ways to split a text that have a name in files
//! (`tokenizer.ggml.pre`), and SentencePiece's BPE (`llama`), whose merges follow from the scores of its tokens.

use super::TextError;
use super::config::TokenizerConfig;
use crate::splits::{LONGEST, SPLITS, bytes};
use kernels_models::gguf::{File, Metadata};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The special tokens that files name by their ids.
const SPECIAL: [(&str, &str); 4] = [
    ("tokenizer.ggml.bos_token_id", "bos_token"),
    ("tokenizer.ggml.eos_token_id", "eos_token"),
    ("tokenizer.ggml.unknown_token_id", "unk_token"),
    ("tokenizer.ggml.padding_token_id", "pad_token"),
];

/// The kinds of tokens that are never split (`tokenizer.ggml.token_type`).
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// Opens the GGUF file that a path means, unless a `tokenizer.json` lies there or beside it.
pub(super) fn find(path: &Path) -> Result<Option<File>, TextError> {
    match kernels_io::is_there(&folder(path).join("tokenizer.json")) {
        true => Ok(None),
        false => Ok(kernels_models::gguf::find(path)?),
    }
}

/// Returns the folder of the files beside the weights: the path itself, or that of a file.
pub(super) fn folder(path: &Path) -> &Path {
    match path.parent() {
        // A file name alone is in the current folder, the empty path.
        Some(parent) if path.is_file() => parent,
        _ => path,
    }
}

/// Returns the special tokens and the chat template of a file.
pub(super) fn config(file: &File) -> Result<TokenizerConfig, TextError> {
    let metadata = file.metadata();
    let tokens = metadata.strings("tokenizer.ggml.tokens")?;
    let mut special = BTreeMap::new();
    for (key, name) in SPECIAL {
        let (Some(id), Some(tokens)) = (metadata.integer(key)?, &tokens) else {
            continue;
        };
        let token = usize::try_from(id).ok().and_then(|id| tokens.get(id));
        let token = token.ok_or_else(|| wrong(file, key, format!("token {id} does not exist")))?;
        special.insert(name.to_owned(), (*token).to_owned());
    }
    let template = metadata.string("tokenizer.chat_template")?;
    Ok(TokenizerConfig {
        special,
        added: BTreeMap::new(),
        template: template.map(|text| (file.path().into(), text.to_owned())),
        prefix_space: None,
    })
}

/// Returns the `tokenizer.json` of a file.
pub(super) fn tokenizer(file: &File) -> Result<Value, TextError> {
    let metadata = file.metadata();
    let tokens = Tokens::read(file)?;
    let kind = metadata.string("tokenizer.ggml.model")?.unwrap_or_default();
    let mut fields = match kind {
        "gpt2" => byte_level(file, &tokens)?,
        "llama" => sentence_piece(file, &tokens)?,
        other => {
            let problem = format!(
                "unsupported tokenizer `{other}`, supported: `gpt2` and `llama`; lay the checkpoint's \
                 tokenizer.json beside the file"
            );
            return Err(wrong(file, "tokenizer.ggml.model", problem));
        }
    };
    let first = match metadata.flag("tokenizer.ggml.add_bos_token")? {
        Some(first) => first,
        None => has_first_token(metadata, kind)?,
    };
    let processor = first.then(|| first_token(file, &tokens));
    fields.insert("version".into(), json!("1.0"));
    fields.insert("added_tokens".into(), tokens.added());
    fields.insert(
        "post_processor".into(),
        processor.transpose()?.unwrap_or_default(),
    );
    Ok(Value::Object(fields))
}

/// The key of the way to split a text.
const PRE: &str = "tokenizer.ggml.pre";

/// Returns `true` if texts begin with a token where no key says so: those of SentencePiece and of Llama 3.
fn has_first_token(metadata: &Metadata, kind: &str) -> Result<bool, TextError> {
    let llama3 = metadata
        .string(PRE)?
        .is_some_and(|pre| pre.starts_with("llama"));
    Ok(kind == "llama" || llama3 && metadata.get("tokenizer.ggml.bos_token_id").is_some())
}

/// The tokens of a file, in the order of their ids.
struct Tokens<'a> {
    texts: Vec<&'a str>,
    types: Vec<i64>,
    /// The tokens that end a text.
    ends: Vec<i64>,
    ids: HashMap<&'a str, usize>,
}

impl<'a> Tokens<'a> {
    fn read(file: &'a File) -> Result<Self, TextError> {
        const TOKENS: &str = "tokenizer.ggml.tokens";
        let texts = file.metadata().strings(TOKENS)?.unwrap_or_default();
        if texts.is_empty() {
            return Err(TextError::Missing {
                folder: file.path().into(),
                problem: "key `tokenizer.ggml.tokens`: the file has no tokenizer; lay the checkpoint's tokenizer.json \
                          beside the file",
            });
        }
        let types = "tokenizer.ggml.token_type";
        let types = list(file, types, texts.len(), Metadata::integers)?;
        let mut ids = HashMap::new();
        for (id, text) in texts.iter().enumerate() {
            if let Some(first) = ids.insert(*text, id) {
                let problem = format!("tokens {first} and {id} have the same text");
                return Err(wrong(file, TOKENS, problem));
            }
        }
        Ok(Self {
            types: types.unwrap_or_else(|| vec![1; texts.len()]),
            ends: file.end_tokens()?,
            texts,
            ids,
        })
    }

    fn vocabulary(&self) -> Value {
        let entry = |(text, id): (&&str, &usize)| ((*text).to_owned(), json!(id));
        Value::Object(self.ids.iter().map(entry).collect())
    }

    /// Returns the tokens that are never split.
    fn added(&self) -> Value {
        let whole = |(id, kind): (usize, &i64)| {
            let ends = self.ends.contains(&(id as i64));
            (ends || matches!(*kind, UNKNOWN | CONTROL | USER_DEFINED)).then(|| {
                json!({
                    "id": id, "content": self.texts[id], "special": ends || *kind != USER_DEFINED,
                    "normalized": false, "single_word": false, "lstrip": false, "rstrip": false,
                })
            })
        };
        self.types.iter().enumerate().filter_map(whole).collect()
    }

    fn unknown(&self) -> Option<&'a str> {
        let at = self.types.iter().position(|kind| *kind == UNKNOWN);
        at.map(|id| self.texts[id])
    }
}

/// Reads a list of a file that has an element for each token.
fn list<'a, T>(
    file: &'a File,
    key: &str,
    length: usize,
    read: impl Fn(&'a Metadata, &str) -> Result<Option<Vec<T>>, kernels_models::ModelError>,
) -> Result<Option<Vec<T>>, TextError> {
    let found = read(file.metadata(), key)?;
    match &found {
        Some(list) if list.len() != length => {
            let problem = format!("{} elements for {length} tokens", list.len());
            Err(wrong(file, key, problem))
        }
        _ => Ok(found),
    }
}

fn byte_level(file: &File, tokens: &Tokens<'_>) -> Result<Map<String, Value>, TextError> {
    const MERGES: &str = "tokenizer.ggml.merges";
    let name = file.metadata().string(PRE)?.ok_or_else(|| {
        let problem = "the file does not say how a text is split; lay the checkpoint's tokenizer.json beside the file";
        wrong(file, PRE, problem.into())
    })?;
    let known = SPLITS.iter().find(|(known, _)| *known == name);
    let Some((_, split)) = known else {
        let names = SPLITS.map(|(name, _)| name).join(", ");
        let problem = format!(
            "unknown pre-tokenizer `{name}`, known: {names}; lay the checkpoint's tokenizer.json beside the \
             file"
        );
        return Err(wrong(file, PRE, problem));
    };
    let merges = file.metadata().strings(MERGES)?;
    let merges = merges.ok_or_else(|| wrong(file, MERGES, "the file has no merges".into()))?;
    let fields = json!({
        "normalizer": (name == "qwen2").then(|| json!({"type": "NFC"})),
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": split.steps()},
        "decoder": bytes(true),
        "model": {
            "type": "BPE", "vocab": tokens.vocabulary(), "merges": merges, "unk_token": null, "fuse_unk": false,
            "byte_fallback": false, "ignore_merges": name.starts_with("llama"),
        },
    });
    Ok(object(fields))
}

fn sentence_piece(file: &File, tokens: &Tokens<'_>) -> Result<Map<String, Value>, TextError> {
    const SCORES: &str = "tokenizer.ggml.scores";
    let scores = list(file, SCORES, tokens.texts.len(), Metadata::numbers)?;
    let scores = scores.ok_or_else(|| wrong(file, SCORES, "the file has no scores".into()))?;
    if let Some((id, text)) = (0..)
        .zip(&tokens.texts)
        .find(|(_, text)| text.len() > LONGEST)
    {
        let problem = format!("token {id} has {} bytes, more than {LONGEST}", text.len());
        return Err(wrong(file, "tokenizer.ggml.tokens", problem));
    }
    let space = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let prefix = file
        .metadata()
        .flag("tokenizer.ggml.add_space_prefix")?
        .unwrap_or(true);
    let mut normalizers = vec![space];
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": "▁"}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    let fields = json!({
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE", "vocab": tokens.vocabulary(), "merges": merges(tokens, &scores),
            "unk_token": tokens.unknown(), "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
        },
    });
    Ok(object(fields))
}

/// Returns the merges of tokens with scores. SentencePiece joins, of all adjacent tokens, those first whose result has the
/// highest score. Equal scores have the order that transformers gives them.
fn merges(tokens: &Tokens<'_>, scores: &[f64]) -> Vec<[String; 2]> {
    let mut merges = Vec::new();
    for (text, &id) in &tokens.ids {
        for (at, _) in text.char_indices().skip(1) {
            let (left, right) = text.split_at(at);
            if tokens.ids.contains_key(left) && tokens.ids.contains_key(right) {
                merges.push((id, [left, right]));
            }
        }
    }
    let lengths = |parts: [&str; 2]| parts.map(|part| part.chars().count());
    merges.sort_by(|&(a, parts_a), &(b, parts_b)| {
        let by_score = scores[b].total_cmp(&scores[a]);
        let by_length = || lengths(parts_b).cmp(&lengths(parts_a));
        by_score.then_with(by_length).then(a.cmp(&b))
    });
    let owned = |(_, parts): (usize, [&str; 2])| parts.map(str::to_owned);
    merges.into_iter().map(owned).collect()
}

/// Puts the first token before each text.
fn first_token(file: &File, tokens: &Tokens<'_>) -> Result<Value, TextError> {
    const KEY: &str = "tokenizer.ggml.bos_token_id";
    let missing = || {
        wrong(
            file,
            KEY,
            "the file has no first token, but is to add it".into(),
        )
    };
    let id = file.metadata().integer(KEY)?.ok_or_else(missing)?;
    let text = usize::try_from(id).ok().and_then(|id| tokens.texts.get(id));
    let text = text.ok_or_else(|| wrong(file, KEY, format!("token {id} does not exist")))?;
    let first = json!({"SpecialToken": {"id": text, "type_id": 0}});
    let sequence = |id: &str, type_id| json!({"Sequence": {"id": id, "type_id": type_id}});
    Ok(json!({
        "type": "TemplateProcessing",
        "single": [first, sequence("A", 0)],
        "pair": [first, sequence("A", 0), sequence("B", 1)],
        "special_tokens": {*text: {"id": text, "ids": [id], "tokens": [text]}},
    }))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn wrong(file: &File, key: &str, problem: String) -> TextError {
    TextError::content(file.path(), format!("key `{key}`: {problem}"))
}
