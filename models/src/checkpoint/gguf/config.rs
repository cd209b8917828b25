//! The configuration of a model from the metadata of a GGUF file, in the fields of `config.json`.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use super::dialect::{DIALECTS, Dialect};
use super::ends::end_tokens;
use super::rope;
use super::{Contents, Metadata, Value};
use crate::{ModelError, nearest};

/// The keys that are fields of `config.json` under another name. Families refuse those that they do not have.
const FIELDS: [(&str, &str); 7] = [
    ("context_length", "max_position_embeddings"),
    ("embedding_length", "hidden_size"),
    ("feed_forward_length", "intermediate_size"),
    ("attention.head_count", "num_attention_heads"),
    ("attention.head_count_kv", "num_key_value_heads"),
    ("block_count", "num_hidden_layers"),
    ("attention.sliding_window", "sliding_window"),
];

/// Numbers among the fields.
const NUMBERS: [(&str, &str); 3] = [
    ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    ("attn_logit_softcapping", "attn_logit_softcapping"),
    ("final_logit_softcapping", "final_logit_softcapping"),
];

/// The fields that every file must have.
const REQUIRED: [&str; 6] = [
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "block_count",
    "attention.layer_norm_rms_epsilon",
];

/// The keys that are read elsewhere.
const READ: [&str; 3] = [
    "vocab_size",
    "attention.key_length",
    "attention.value_length",
];

/// The keys with one accepted value, at which they have no effect, and those without an effect here.
const NEUTRAL: [(&str, Option<Value>); 7] = [
    ("attention.causal", Some(Value::Flag(true))),
    ("expert_count", Some(Value::Integer(0))),
    ("expert_used_count", Some(Value::Integer(0))),
    ("attention.sliding_window_pattern", Some(Value::Integer(6))),
    ("pooling_type", Some(Value::Integer(0))),
    ("tensor_data_layout", None),
    ("rope.scaling.finetuned", None),
];

/// Tokens that `config.json` names.
const TOKENS: [(&str, &str); 2] = [
    ("tokenizer.ggml.bos_token_id", "bos_token_id"),
    ("tokenizer.ggml.padding_token_id", "pad_token_id"),
];

/// Returns the family of a file.
pub(super) fn dialect(metadata: &Metadata) -> Result<&'static Dialect, ModelError> {
    const KEY: &str = "general.architecture";
    if let Some(kind) = metadata.string("general.type")?
        && kind != "model"
    {
        let problem = format!("`{kind}` is not read; only whole models are");
        return Err(metadata.error("general.type", problem));
    }
    if metadata
        .integer("split.count")?
        .is_some_and(|count| count > 1)
    {
        let problem = "the model is split into several files, which are not read; join them with \
                       llama.cpp's `llama-gguf-split --merge`";
        return Err(metadata.error("split.count", problem));
    }
    let Some(name) = metadata.string(KEY)? else {
        return Err(metadata.error(KEY, "missing: the file does not name its model family"));
    };
    Dialect::find(name).ok_or_else(|| {
        let known = DIALECTS.iter().map(|dialect| dialect.name);
        let nearest = nearest::hint(name, known.clone());
        let known = known.collect::<Vec<_>>().join(", ");
        let problem = format!("`{name}` is not read from GGUF files{nearest}; read are {known}");
        metadata.error(KEY, problem)
    })
}

/// Returns the fields of `config.json`.
pub(super) fn fields(
    file: &dyn Contents,
    dialect: &Dialect,
) -> Result<Map<String, Json>, ModelError> {
    let keys = Keys {
        metadata: file.metadata(),
        family: dialect.name,
    };
    keys.check_keys()?;
    keys.check_layers(file)?;
    let mut fields = keys.renamed()?;
    let mut set = |field: &str, value: Json| drop(fields.insert(field.into(), value));
    set("vocab_size", json!(keys.vocabulary(file)?));
    let head = keys.head_width()?;
    set("head_dim", json!(head));
    let has = |name: &str| file.shape(name).is_some();
    set("tie_word_embeddings", json!(!has("output.weight")));
    if dialect.paired_rows {
        set("attention_bias", json!(has("blk.0.attn_q.bias")));
        set("mlp_bias", json!(has("blk.0.ffn_gate.bias")));
    }
    if dialect.gemma {
        set(
            "query_pre_attn_scalar",
            json!(keys.score_divisor(dialect, head)?),
        );
    }
    rope::add(file, &keys, head, &mut fields)?;
    name_class(dialect, &mut fields);
    Ok(fields)
}

/// Names the class. Files of Mistral say `llama`, and only those have a window.
fn name_class(dialect: &Dialect, fields: &mut Map<String, Json>) {
    use crate::config::Architecture::{Llama, Mistral};
    let architecture = match fields.contains_key("sliding_window") {
        true if dialect.architecture == Llama => Mistral,
        _ => dialect.architecture,
    };
    if architecture == Mistral {
        for field in ["attention_bias", "mlp_bias"] {
            fields.remove(field);
        }
    }
    let class = json!([architecture.class_name()]);
    fields.insert("architectures".into(), class);
    fields.insert("model_type".into(), json!(architecture.model_type()));
}

/// The keys of a configuration, which begin with the family.
pub(super) struct Keys<'a> {
    pub(super) metadata: &'a Metadata,
    pub(super) family: &'static str,
}

impl Keys<'_> {
    pub(super) fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.family)
    }

    /// Returns a size.
    fn size(&self, key: &str) -> Result<Option<usize>, ModelError> {
        let full = self.full(key);
        match self.metadata.get(&full) {
            Some(Value::List(_)) => {
                let problem = "differs between the layers, which is not supported";
                Err(self.metadata.error(&full, problem))
            }
            _ => {
                let size = self.metadata.integer(&full)?;
                let convert = |size| {
                    usize::try_from(size).map_err(|_| {
                        let problem = format!("expected a size, found {size}");
                        self.metadata.error(&full, problem)
                    })
                };
                size.map(convert).transpose()
            }
        }
    }

    /// Returns the fields that differ from keys in their names only.
    fn renamed(&self) -> Result<Map<String, Json>, ModelError> {
        let mut fields = Map::new();
        let mut set = |field: &str, value: Option<Json>| {
            fields.extend(value.map(|value| (field.to_owned(), value)));
        };
        for (key, field) in FIELDS {
            set(field, self.size(key)?.map(Json::from));
        }
        for (key, field) in NUMBERS {
            set(
                field,
                self.metadata.number(&self.full(key))?.map(Json::from),
            );
        }
        for (key, field) in TOKENS {
            set(field, self.metadata.integer(key)?.map(Json::from));
        }
        set(
            "eos_token_id",
            match end_tokens(self.metadata)?.as_slice() {
                [] => None,
                [only] => Some(json!(only)),
                several => Some(json!(several)),
            },
        );
        Ok(fields)
    }

    /// Returns the number of rows of the embedding. The file may also name it.
    fn vocabulary(&self, file: &dyn Contents) -> Result<usize, ModelError> {
        let Some(&[rows, _]) = file.shape("token_embd.weight") else {
            let problem = "missing, or not a matrix";
            return Err(self.metadata.error("token_embd.weight", problem));
        };
        match self.size("vocab_size")? {
            Some(size) if size != rows => {
                let problem = format!("{size} contradicts the embedding, which has {rows} rows");
                Err(self.metadata.error(&self.full("vocab_size"), problem))
            }
            _ => Ok(rows),
        }
    }

    /// Compares the number of layers with the tensors, before memory is used for them.
    fn check_layers(&self, file: &dyn Contents) -> Result<(), ModelError> {
        let names = file.names().into_iter();
        let layers = names.filter_map(|name| name.strip_prefix("blk.")?.split('.').next());
        let layers = layers.collect::<BTreeSet<_>>().len();
        match self.size("block_count")? {
            Some(count) if count != layers => {
                let problem =
                    format!("{count} contradicts the tensors, which are of {layers} layers");
                Err(self.metadata.error(&self.full("block_count"), problem))
            }
            _ => Ok(()),
        }
    }

    /// Returns the width of a head.
    fn head_width(&self) -> Result<usize, ModelError> {
        let keys = self.size("attention.key_length")?;
        let values = self.size("attention.value_length")?;
        if let (Some(keys), Some(values)) = (keys, values)
            && keys != values
        {
            let problem = format!("{values} differs from the width of keys, {keys}");
            let key = self.full("attention.value_length");
            return Err(self.metadata.error(&key, problem));
        }
        let size = |key| self.size(key).map(|size| size.unwrap_or(0));
        let (hidden, heads) = (size("embedding_length")?, size("attention.head_count")?);
        match keys.or(values) {
            Some(width) => Ok(width),
            None if heads > 0 && hidden.is_multiple_of(heads) => Ok(hidden / heads),
            None => {
                let problem = format!("{heads} heads do not divide the width {hidden}");
                let key = self.full("attention.head_count");
                Err(self.metadata.error(&key, problem))
            }
        }
    }

    /// Returns the number whose root divides the scores of Gemma's attention. Files do not hold it; it follows from the
    /// size of the model, as in llama.cpp.
    fn score_divisor(&self, dialect: &Dialect, head: usize) -> Result<usize, ModelError> {
        let size = |key| self.size(key).map(|size| size.unwrap_or(0));
        let layers = size("block_count")?;
        if dialect.wide_scores == Some(layers) {
            return Ok(size("embedding_length")? / size("attention.head_count")?.max(1));
        }
        Ok(head)
    }

    /// Refuses keys of the configuration that have an unknown effect, and the absence of those that must be there.
    fn check_keys(&self) -> Result<(), ModelError> {
        let start = format!("{}.", self.family);
        for (full, value) in self.metadata.iter() {
            let Some(key) = full.strip_prefix(&start) else {
                continue;
            };
            let known = FIELDS
                .iter()
                .chain(&NUMBERS)
                .any(|(known, _)| *known == key);
            if known || READ.contains(&key) || rope::READ.contains(&key) {
                continue;
            }
            match NEUTRAL.iter().find(|(known, _)| *known == key) {
                Some((_, None)) => {}
                Some((_, Some(neutral))) if neutral == value => {}
                _ => {
                    let problem = format!("{value} is not supported");
                    return Err(self.metadata.error(full, problem));
                }
            }
        }
        let absent = |key: &&str| self.metadata.get(&self.full(key)).is_none();
        let missing: Vec<_> = REQUIRED.into_iter().filter(absent).collect();
        if let [first, others @ ..] = missing.as_slice() {
            let others = others
                .iter()
                .map(|key| format!(", and so is `{}`", self.full(key)));
            let problem = format!("missing{}", others.collect::<String>());
            return Err(self.metadata.error(&self.full(first), problem));
        }
        Ok(())
    }
}
