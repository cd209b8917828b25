//! The turns of a conversation in a record.

use super::calls;
use super::chat::Chat;
use super::json::Ordered;
use super::unlearned;
use super::unlearned::Part;
use crate::pictures::{Content, Images};
use crate::text::Message;
use serde_json::{Map, Value};

/// The fields that change the meaning of a record.
pub const UNKNOWN: [&str; 12] = [
    "documents",
    "chat_template",
    "chat_template_kwargs",
    "video",
    "videos",
    "audio",
    "audios",
    "tool_calls",
    "function_call",
    "reasoning_content",
    "reasoning",
    "thinking",
];

/// The fields that hold pictures, which only conversations of the loss of tokens have.
pub const PICTURES: [&str; 2] = ["image", "images"];

/// The fields that hold inputs of towers beside the language model.
pub const MEDIA: [&str; 6] = ["image", "images", "video", "videos", "audio", "audios"];

/// The fields of a record or a turn, in two forms.
pub struct Source<'a> {
    /// The fields that this program reads.
    pub fields: &'a Map<String, Value>,
    /// The same fields in the order that templates write.
    pub ordered: Ordered,
}

/// Refuses fields that other programs learn from in another way. Without them, a record would mean something else.
pub fn refuse(fields: &Map<String, Value>, names: &[&str]) -> Result<(), String> {
    match names.iter().find(|name| says(fields, name)) {
        None => Ok(()),
        Some(name) if PICTURES.contains(name) => Err(format!(
            "`{name}` is read with conversations of --loss sft alone; remove it to learn without it"
        )),
        Some(name) if MEDIA.contains(name) => Err(format!(
            "`{name}` is not supported, as models are trained without their towers for it; remove it to learn without it"
        )),
        Some(name) => Err(format!(
            "`{name}` is not supported, and would change what is learned; remove it to learn without it"
        )),
    }
}

/// Returns `true` if a field is there and not empty.
pub fn says(fields: &Map<String, Value>, name: &str) -> bool {
    match fields.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(object)) => !object.is_empty(),
        // A list or an object can be written as text.
        Some(Value::String(text)) => !["", "[]", "{}", "null"].contains(&text.trim()),
        Some(_) => true,
    }
}

/// Returns the value of a field. Tables have nulls for the fields of other rows, so that a null is an absent field.
pub fn given<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

/// Returns a field that must be a text.
pub fn text(fields: &Map<String, Value>, name: &str) -> Result<String, String> {
    match given(fields, name) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(not_a_text(name, "a text", other)),
        None => Err(format!("`{name}` is missing")),
    }
}

/// Returns a field that may be absent or null.
pub fn optional(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match given(fields, name) {
        None => Ok(None),
        Some(_) => text(fields, name).map(Some),
    }
}

/// The only field of an object that stands for bytes which are not UTF-8, in the columns of tables. Its value is their
/// number.
pub const BYTES: &str = "bytes that are not UTF-8";

/// Returns the error of a field with another value than `expected`.
pub fn not_a_text(name: &str, expected: &str, found: &Value) -> String {
    let bytes = found.as_object().and_then(|object| object.get(BYTES));
    match bytes {
        Some(count) => format!("`{name}` must be {expected}, but is {count} {BYTES}"),
        None => format!("`{name}` must be {expected}"),
    }
}

/// Returns `true` if a field is a list, as turns are.
pub fn has_turns(fields: &Map<String, Value>, name: &str) -> bool {
    fields.get(name).is_some_and(Value::is_array)
}

/// Returns the turns of a field.
pub fn turns<'a>(source: &Source<'a>, name: &str) -> Result<Vec<Source<'a>>, String> {
    let turns = source.fields.get(name).and_then(Value::as_array);
    let turns = turns.ok_or_else(|| format!("`{name}` must be a list of messages"))?;
    let list = source.ordered.get_attr(name).unwrap_or_default();
    let number = |(at, turn): (usize, &'a Value)| {
        let fields = turn.as_object();
        let ordered = list.get_item_by_index(at).unwrap_or_default();
        fields
            .map(|fields| Source { fields, ordered })
            .ok_or_else(|| format!("message {}: expected an object", at + 1))
    };
    turns.iter().enumerate().map(number).collect()
}

/// Reads the turns of a field, whose own fields have the usual names. Their contents are texts, or with `images` also lists
/// of parts.
pub fn messages(
    source: &Source<'_>,
    name: &str,
    images: Option<&mut Images<'_>>,
) -> Result<Chat, String> {
    of_turns(source, name, ["role", "content"], images)
}

/// Reads the turns of a field, whose own fields have these names.
pub fn of_turns(
    source: &Source<'_>,
    name: &str,
    [role, content]: [&str; 2],
    mut images: Option<&mut Images<'_>>,
) -> Result<Chat, String> {
    let turns = turns(source, name)?.into_iter().enumerate();
    let turns = turns.map(|(at, turn)| {
        let message = turn_of(&turn, [role, content], images.as_deref_mut(), at == 0);
        message.map_err(|problem: String| format!("message {}: {problem}", at + 1))
    });
    Ok(Chat::new(turns.collect::<Result<Vec<_>, _>>()?))
}

/// Reads the content of a turn.
fn content_of(
    fields: &Map<String, Value>,
    name: &str,
    images: Option<&mut Images<'_>>,
) -> Result<Content, String> {
    match (given(fields, name), images) {
        (Some(value @ (Value::String(_) | Value::Array(_))), Some(images)) => images.content(value),
        _ => Ok(Content {
            text: text(fields, name)?,
            ..Content::default()
        }),
    }
}

fn turn_of(
    turn: &Source<'_>,
    [role, content]: [&str; 2],
    images: Option<&mut Images<'_>>,
    is_first: bool,
) -> Result<(Message, Part), String> {
    refuse(turn.fields, &["history", "documents"])?;
    let role = text(turn.fields, role)?;
    let mut fields = calls::fields(&turn.ordered)?;
    let is_call = role == "function_call";
    if is_call {
        fields.push(calls::of_text(&text(turn.fields, content)?)?);
    }
    let role = match role.as_str() {
        "human" => "user",
        "gpt" | "chatgpt" | "function_call" => "assistant",
        "function" | "observation" | "tool_response" => "tool",
        other => other,
    };
    // Only the answers of functions have a name that templates write.
    fields.retain(|(name, _)| role == "tool" || !["name", "tool_call_id"].contains(name));
    let calls = fields.iter().any(|(name, _)| *name == Message::CALLS);
    let is_silent = is_call || calls && turn.fields.get(content).is_none_or(Value::is_null);
    let content = match is_silent {
        true => Content::default(),
        false => content_of(turn.fields, content, images)?,
    };
    if role == "assistant" && !content.parts.is_empty() {
        return Err(
            "a picture in a turn of the assistant is not supported, as the model writes texts alone".into(),
        );
    }
    if calls && role != "assistant" {
        return Err(format!(
            "a turn of the role `{role}` calls a function, but only the assistant can"
        ));
    }
    let tools = calls::tools(&turn.ordered)?;
    if tools.is_some() && !is_first {
        return Err("only the record or its first message can have `tools`".into());
    }
    let message = Message {
        fields,
        tools,
        parts: content.parts,
        ..Message::new(role, content.text)
    };
    let part = unlearned::part(turn.fields, &message)?;
    Ok((message, part))
}
