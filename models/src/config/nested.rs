//! Configurations of models of several modalities, whose text model has an object of its own.

use serde_json::{Map, Value, json};

use super::family::Nested;
use super::fields::Fields;
use super::quantisation;
use crate::ModelError;

/// The object of the text model.
const TEXT: &str = "text_config";

/// Fields of the whole model. Old files have those of the text model beside them.
const WHOLE: &[&str] = &[
    "vision_config",
    "image_token_id",
    "video_token_id",
    "vision_start_token_id",
    "vision_end_token_id",
    "vision_token_id",
    "transformers_version",
];

/// Text models for which transformers saves `tie_word_embeddings` with its default, true. Only the field of the whole
/// model counts for them.
const TIED_BY_WHOLE: &[&str] = &["qwen3_vl_moe_text"];

/// Returns the fields of the text model, and their object.
pub(super) fn text<'a>(
    fields: Fields<'a>,
    object: &'a Map<String, Value>,
    nested: Option<&Nested>,
) -> Result<(Fields<'a>, &'a Map<String, Value>), ModelError> {
    let Some(nested) = nested else {
        return Ok((fields, object));
    };
    let Some(text) = fields.object(TEXT)? else {
        return Ok((fields, object));
    };
    let fields = fields.inside("text_config.", text);
    match fields.string("model_type")? {
        Some(other) if other != nested.model_type => {
            let problem = format!(
                "`{other}` is not supported; supported: {}",
                nested.model_type
            );
            Err(fields.error("model_type", problem))
        }
        _ => Ok((fields, text)),
    }
}

/// Returns the fields of the whole model that are kept for saving, of a model of several modalities.
pub(super) fn whole(object: &Map<String, Value>, nested: Option<&Nested>) -> Map<String, Value> {
    let has_text = object.contains_key(TEXT);
    let is_own = |name: &str| match has_text {
        true => ![
            TEXT,
            quantisation::FIELD,
            "architectures",
            "model_type",
            "tie_word_embeddings",
            "dtype",
            "torch_dtype",
        ]
        .contains(&name),
        false => WHOLE.contains(&name),
    };
    let kept = object
        .iter()
        .filter(|(name, _)| nested.is_some() && is_own(name));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns `true` for a field beside those of the text model in an old file.
pub(super) fn belongs_to_whole(name: &str) -> bool {
    WHOLE.contains(&name)
}

/// Reads whether the output projection is the embedding table, which the whole model and its text model may say.
pub(super) fn tied(
    whole: Fields<'_>,
    text: Fields<'_>,
    nested: Option<&Nested>,
) -> Result<Option<bool>, ModelError> {
    let name = "tie_word_embeddings";
    let by_whole = nested.is_some_and(|nested| TIED_BY_WHOLE.contains(&nested.model_type));
    match (whole.boolean(name)?, text.boolean(name)?) {
        (Some(whole), Some(_)) if by_whole => Ok(Some(whole)),
        (Some(whole), Some(own)) if whole != own => {
            let problem = format!("{own} contradicts the outer `{name}`, which is {whole}");
            Err(text.error(name, problem))
        }
        (whole, own) => Ok(whole.or(own)),
    }
}

/// Puts the fields of a text model into an object of the whole model.
pub(super) fn wrap(
    mut text: Map<String, Value>,
    whole: &Map<String, Value>,
    nested: &Nested,
) -> Map<String, Value> {
    let mut object = whole.clone();
    for name in [
        "architectures",
        "model_type",
        "tie_word_embeddings",
        "dtype",
        "torch_dtype",
    ] {
        if let Some(value) = text.get(name) {
            object.insert(name.to_owned(), value.clone());
        }
    }
    text.remove("architectures");
    text.insert("model_type".to_owned(), json!(nested.model_type));
    object.insert(TEXT.to_owned(), Value::Object(text));
    object
}
