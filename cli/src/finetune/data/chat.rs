//! A conversation in a record: its messages, ShareGPT's or Alpaca's form, or a prompt of turns with a completion.

use super::calls;
use super::turns::{
    PICTURES, Source, given, has_turns, messages, of_turns, optional, says, text, turns,
};
use super::unlearned::Part;
use crate::pictures::{Images, Source as Picture};
use crate::text::Message;
use serde_json::{Map, Value};
use std::path::Path;

/// The roles of a conversation.
const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];

/// A conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chat {
    /// The turns.
    pub messages: Vec<Message>,
    /// The learned part of each turn.
    pub parts: Vec<Part>,
    /// The pictures, in the order of their places in the turns.
    pub pictures: Vec<Picture>,
}

impl Chat {
    /// Reads the conversation of a record, in one of the forms that are common.
    pub(super) fn parse(source: &Source<'_>, folder: &Path) -> Result<Self, String> {
        let named = PICTURES.into_iter().find(|name| says(source.fields, name));
        let mut images = Images::of_record(source.fields, named, folder)?;
        let has = |name: &str| given(source.fields, name).is_some();
        let chat = if has("messages") {
            messages(source, "messages", Some(&mut images))?.checked()?
        } else if has("conversations") {
            shared(source, &mut images)?.checked()?
        } else if has("instruction") {
            alpaca(source.fields, &mut images)?.checked()?
        } else {
            continued(source, &mut images)?
        };
        let mut chat = chat.with_system(source.fields)?;
        chat.pictures = images.finish()?;
        let own = chat
            .messages
            .iter_mut()
            .find_map(|message| message.tools.take());
        chat.messages[0].tools = match (calls::tools(&source.ordered)?, own) {
            (Some(_), Some(_)) => {
                return Err("the record and a message have `tools`; keep one".into());
            }
            (tools, own) => tools.or(own),
        };
        Ok(chat)
    }

    /// Returns a conversation of turns.
    pub fn new(turns: impl IntoIterator<Item = (Message, Part)>) -> Self {
        let (messages, parts) = turns.into_iter().unzip();
        Self {
            messages,
            parts,
            pictures: Vec::new(),
        }
    }

    /// Puts the system message of a record before its turns.
    fn with_system(mut self, fields: &Map<String, Value>) -> Result<Self, String> {
        let system = optional(fields, "system")?.filter(|system| !system.is_empty());
        let Some(system) = system else {
            return Ok(self);
        };
        match self.messages.first().filter(|turn| turn.role == "system") {
            // Some published records repeat it.
            Some(turn) if turn.content == system => {}
            Some(_) => {
                return Err(
                    "the record has `system`, and its first turn is the system's too; keep one"
                        .into(),
                );
            }
            None => {
                self.messages.insert(0, Message::system(system));
                self.parts.insert(0, Part::Prompt);
            }
        }
        Ok(self)
    }

    /// Checks that there is something to learn.
    fn checked(self) -> Result<Self, String> {
        check_turns(&self.messages)?;
        match self.parts.contains(&Part::Answer) {
            true => Ok(self),
            false if self.parts.contains(&Part::Unlearned) => {
                Err("every turn of the assistant is marked as not to be learned".into())
            }
            false => Err("no turn is the assistant's, so there is nothing to learn".into()),
        }
    }
}

/// Checks the roles of turns, and that the assistant says something in its own.
pub(super) fn check_turns(messages: &[Message]) -> Result<(), String> {
    for (at, message) in messages.iter().enumerate() {
        let number = at + 1;
        if !ROLES.contains(&message.role.as_str()) {
            return Err(format!(
                "message {number}: the role `{}` is unknown; roles are {}",
                message.role,
                ROLES.join(", ")
            ));
        }
        let is_empty = message.content.trim().is_empty() && message.calls().is_empty();
        if message.is_answer() && is_empty {
            return Err(format!("message {number}: the assistant's turn is empty"));
        }
    }
    Ok(())
}

/// Reads a conversation and the turns that follow. Only the assistant's turns among these are learned.
fn continued(source: &Source<'_>, images: &mut Images<'_>) -> Result<Chat, String> {
    let mut chat = messages(source, "prompt", Some(&mut *images))?;
    check_turns(&chat.messages)?;
    for part in &mut chat.parts {
        if *part == Part::Answer {
            *part = Part::Prompt;
        }
    }
    if !has_turns(source.fields, "completion") {
        return Err("`completion` must be a list of messages, as `prompt` is".into());
    }
    let completion = messages(source, "completion", Some(images)).and_then(Chat::checked);
    let completion = completion.map_err(|problem| format!("`completion`: {problem}"))?;
    chat.messages.extend(completion.messages);
    chat.parts.extend(completion.parts);
    Ok(chat)
}

/// Reads a conversation as ShareGPT writes it.
fn shared(source: &Source<'_>, images: &mut Images<'_>) -> Result<Chat, String> {
    const NAME: &str = "conversations";
    match turns(source, NAME)?.first() {
        // Some files of this kind have the usual names of fields.
        Some(first) if first.fields.contains_key("role") => messages(source, NAME, Some(images)),
        _ => of_turns(source, NAME, ["from", "value"], Some(images)),
    }
}

/// Reads an instruction as Alpaca writes it.
fn alpaca(fields: &Map<String, Value>, images: &mut Images<'_>) -> Result<Chat, String> {
    let question = images.content(&Value::String(alpaca_question(fields)?))?;
    let question = Message {
        parts: question.parts,
        ..Message::user(question.text)
    };
    let answer = Message::assistant(text(fields, "output")?);
    let turns = [(question, Part::Prompt), (answer, Part::Answer)];
    Ok(Chat::new(turns))
}

/// Returns an instruction with its input.
pub(super) fn alpaca_question(fields: &Map<String, Value>) -> Result<String, String> {
    let mut question = text(fields, "instruction")?;
    if let Some(input) = optional(fields, "input")?.filter(|input| !input.is_empty()) {
        question.push('\n');
        question.push_str(&input);
    }
    Ok(question)
}
