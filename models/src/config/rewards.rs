//! Reward models: a decoder with one score in place of logits.

use serde_json::{Value, json};

use super::ModelConfig;
use super::family::Family;
use super::fields::Fields;
use crate::ModelError;

/// The end of the classes of such models in transformers.
const CLASS: &str = "ForSequenceClassification";

/// The fields that name labels.
const LABELS: [&str; 2] = ["id2label", "label2id"];

/// Returns the class of a family's reward models. Returns `None` for text models of several
/// modalities and for models that speak.
fn class(family: &Family) -> Option<String> {
    let own = family.class_name.split("For").next()?;
    let own = match own {
        // Their classes without `Text` are those of texts and images.
        "Gemma3" => "Gemma3Text",
        "Qwen3_5" => "Qwen3_5Text",
        // transformers does not have such a class.
        "Qwen3_5Moe" => return None,
        own => own,
    };
    let has_none = family.nested.is_some() || family.speech.is_some();
    (!has_none).then(|| format!("{own}{CLASS}"))
}

/// Returns `true` for the class of a family's reward models.
pub(super) fn is_class(family: &Family, name: &str) -> bool {
    name.ends_with(CLASS) && class(family).is_some_and(|own| own == name)
}

/// Returns `true` if a configuration is that of a reward model.
///
/// # Errors
/// Returns an error for one with several labels.
pub(super) fn parse(fields: Fields<'_>, family: &Family) -> Result<bool, ModelError> {
    let classes = fields.strings("architectures")?;
    let mut classes = classes.iter().flatten();
    if !classes.any(|name| is_class(family, name)) {
        return Ok(false);
    }
    // Without either field, transformers has two labels.
    let (field, labels) = match fields.object(LABELS[0])? {
        Some(labels) => (LABELS[0], labels.len()),
        None => ("num_labels", fields.size("num_labels")?.unwrap_or(2)),
    };
    match labels {
        1 => Ok(true),
        labels => {
            let problem = format!(
                "{labels} labels are not supported: of the {CLASS} models, only reward models, with one label, are"
            );
            Err(fields.error(field, problem))
        }
    }
}

impl ModelConfig {
    /// Returns `true` for a reward model, which [`load_reward_model`](crate::load_reward_model) reads.
    pub fn is_reward_model(&self) -> bool {
        self.rewards
    }

    /// Returns the configuration of a reward model with this decoder. `padding` is the id of a token that no text ends
    /// with, by which transformers finds the ends of texts in a batch. Without one, the configuration names none.
    ///
    /// # Errors
    /// Returns [`ModelError::Input`] for a text model of several modalities, and for a token outside the vocabulary.
    pub fn into_reward_model(mut self, padding: Option<u32>) -> Result<Self, ModelError> {
        let fail = |problem| {
            Err(ModelError::Input {
                input: "config",
                problem,
            })
        };
        if class(self.family()).is_none() {
            let name = self.family().class_name;
            return fail(format!("{name} has no reward models"));
        }
        match padding {
            Some(padding) if padding as usize >= self.vocab_size => {
                let vocabulary = self.vocab_size;
                return fail(format!(
                    "token {padding} is not in 0..{vocabulary} (vocab_size)"
                ));
            }
            Some(padding) => {
                self.other.insert("pad_token_id".into(), json!(padding));
            }
            // That of a language model can end texts.
            None => {
                self.other.remove("pad_token_id");
            }
        }
        self.rewards = true;
        self.other.insert(LABELS[0].into(), json!({"0": "LABEL_0"}));
        self.other.insert(LABELS[1].into(), json!({"LABEL_0": 0}));
        self.other.remove("num_labels");
        Ok(self)
    }

    /// Returns the token that pads texts, if the file names it.
    pub fn padding_token(&self) -> Option<u32> {
        let id = self.other.get("pad_token_id").and_then(Value::as_u64)?;
        u32::try_from(id).ok()
    }

    /// Returns the class of the model in transformers.
    pub(super) fn class_name(&self) -> String {
        let family = self.family();
        let rewards = class(family).filter(|_| self.rewards);
        rewards.unwrap_or_else(|| family.class_name.to_owned())
    }
}
