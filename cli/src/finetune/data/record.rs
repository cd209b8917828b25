//! One record of a data file, in the forms that are common.

use super::chat::Chat;
use super::json::Ordered;
use super::preferences::{Kind, Preference};
use super::prompts::Prompted;
use super::sides::check_fields;
use super::turns::{PICTURES, Source, UNKNOWN, given, has_turns, refuse, says, text};
use super::unlearned;
use serde_json::{Map, Value};
use std::path::Path;

#[cfg(test)]
mod tests;

/// A record, by its kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A text, all of which is learned.
    Text(String),
    /// A prompt, and the completion that is learned.
    Pair { prompt: String, completion: String },
    /// A conversation, of which some of the assistant's turns are learned.
    Chat(Chat),
    /// Answers that are compared or judged.
    Preference(Preference),
    /// A prompt that the model completes itself, or one with a completion and its reward.
    Prompt(Box<Prompted>),
}

/// The functions that the assistant can call.
const TOOLS: [&str; 2] = ["tools", "functions"];

/// The fields whose values templates write in the order of the record.
const WRITTEN: [&str; 9] = [
    "tools",
    "functions",
    "tool_calls",
    "function_call",
    "reasoning_content",
    "reasoning",
    "thinking",
    "tool_call_id",
    "name",
];

impl Record {
    /// The fields of which a record has at least one.
    pub const FIELDS: [&str; 7] = [
        "chosen",
        "text",
        "prompt",
        "completion",
        "messages",
        "conversations",
        "instruction",
    ];

    /// Reads a record from a JSON value. Paths of pictures are relative to `folder`. `ordered` returns the value with
    /// the order of its fields, which only some records need.
    ///
    /// # Errors
    /// Returns the problem.
    pub fn parse(
        value: &Value,
        folder: &Path,
        ordered: impl FnOnce() -> Ordered,
    ) -> Result<Self, String> {
        let Value::Object(fields) = value else {
            return Err("expected a JSON object".into());
        };
        refuse(fields, &["history"])?;
        refuse(fields, &UNKNOWN)?;
        unlearned::refuse(fields, &["label", "loss"])?;
        refuse_two_forms(fields)?;
        let has = |name: &str| given(fields, name).is_some();
        let learned = ["completion", "text", "messages", "conversations", "output"];
        if has("chosen") && has("rejected") && !learned.into_iter().any(has) {
            return Err(
                "a record with `chosen` and `rejected` is a pair, for --loss dpo and other losses of pairs; --loss sft learns \
                 `completion`"
                    .into(),
            );
        }
        if has("messages")
            || has("conversations")
            || has("instruction")
            || has_turns(fields, "prompt")
        {
            let ordered = if is_written(fields) {
                ordered()
            } else {
                Ordered::default()
            };
            return Chat::parse(&Source { fields, ordered }, folder).map(Self::Chat);
        }
        refuse(fields, &PICTURES)?;
        refuse(fields, &TOOLS)?;
        if has("prompt") || has("completion") {
            refuse(fields, &["suffix"])?;
            check_fields(fields)?;
            if says(fields, "system") {
                return Err(
                    "`system` is of a conversation, but prompt and completion are texts; make turns of them, or \
                     write it into `prompt`"
                        .into(),
                );
            }
            let completion = text(fields, "completion")?;
            return match completion.trim().is_empty() {
                true => Err("the completion is empty, so there is nothing to learn".into()),
                false => Ok(Self::Pair {
                    prompt: text(fields, "prompt")?,
                    completion,
                }),
            };
        }
        if has("text") {
            let text = text(fields, "text")?;
            return match text.trim().is_empty() {
                true => Err("the text is empty".into()),
                false => Ok(Self::Text(text)),
            };
        }
        Err(
            "expected `text`, `prompt` and `completion`, `messages`, `conversations` (ShareGPT), or `instruction` and \
             `output` (Alpaca)"
                .into(),
        )
    }

    /// Returns `true` for a conversation with pictures.
    pub fn has_pictures(&self) -> bool {
        matches!(self, Self::Chat(chat) if !chat.pictures.is_empty())
    }

    /// Reads the records of answers that a JSON value has.
    ///
    /// # Errors
    /// Returns the problem.
    pub fn preferences(
        value: &Value,
        kind: Kind,
        ordered: impl FnOnce() -> Ordered,
    ) -> Result<Vec<Self>, String> {
        let Value::Object(fields) = value else {
            return Err("expected a JSON object".into());
        };
        let ordered = if is_written(fields) {
            ordered()
        } else {
            Ordered::default()
        };
        let source = Source { fields, ordered };
        if kind == Kind::Prompts {
            let prompted = Prompted::parse(&source)?;
            return Ok(vec![Self::Prompt(Box::new(prompted))]);
        }
        let found = Preference::parse(&source, kind)?;
        Ok(found.into_iter().map(Self::Preference).collect())
    }
}

/// Refuses a record with two things to learn, of which one would be lost. Published records repeat a learned
/// part: the first message as `prompt`, or an instruction with its output as `text`.
fn refuse_two_forms(fields: &Map<String, Value>) -> Result<(), String> {
    const FORMS: [&str; 4] = ["messages", "conversations", "completion", "text"];
    let mut there = FORMS
        .into_iter()
        .filter(|name| given(fields, name).is_some());
    match (there.next(), there.next()) {
        (Some(one), Some(other)) => Err(format!(
            "`{one}` and `{other}` are two forms of a record; keep the one to learn, and remove the other"
        )),
        _ => Ok(()),
    }
}

/// Returns `true` if a record or one of its turns has a field whose value templates write.
fn is_written(record: &Map<String, Value>) -> bool {
    let turns = record.values().flat_map(|value| match value {
        Value::Array(list) => list.as_slice(),
        // A single turn, not in a list.
        one => std::slice::from_ref(one),
    });
    let mut all = turns.filter_map(Value::as_object).chain([record]);
    all.any(|fields| WRITTEN.iter().any(|name| fields.contains_key(*name)))
}
