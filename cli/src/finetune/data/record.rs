//! One record of a data file, in the forms that are common.

use super::calls;
use super::json::Ordered;
use super::preferences::{Kind, Preference};
use super::prompts::Prompted;
use super::sides::check_fields;
use super::turns::{Source, UNKNOWN, given, messages, of_turns, refuse, says, text, turns};
use super::unlearned::{self, Part};
use crate::text::Message;
use serde_json::{Map, Value};

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

/// A conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chat {
    /// The turns.
    pub messages: Vec<Message>,
    /// The learned part of each turn.
    pub parts: Vec<Part>,
}

/// The functions that the assistant can call.
const TOOLS: [&str; 2] = ["tools", "functions"];

/// The fields whose values templates write, with the order of what is inside.
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

/// The roles of a conversation.
const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];

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

    /// Reads a record from a JSON value. `ordered` returns it with the order of its fields, which only some records need.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn parse(value: &Value, ordered: impl FnOnce() -> Ordered) -> Result<Self, String> {
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
            return Chat::parse(&Source { fields, ordered }).map(Self::Chat);
        }
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
}

impl Record {
    /// Reads the records of answers that a JSON value has.
    ///
    /// # Errors
    /// Returns what is wrong with it.
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

impl Chat {
    fn parse(source: &Source<'_>) -> Result<Self, String> {
        let has = |name: &str| given(source.fields, name).is_some();
        let chat = if has("messages") {
            messages(source, "messages")?.checked()?
        } else if has("conversations") {
            shared(source)?.checked()?
        } else if has("instruction") {
            alpaca(source.fields)?.checked()?
        } else {
            continued(source)?
        };
        let mut chat = chat.with_system(source.fields)?;
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
        Self { messages, parts }
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

/// Refuses a record with two things to learn, of which one would be lost. Published records repeat a part of what is
/// learned: the first message as `prompt`, or an instruction with its output as `text`.
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

fn has_turns(fields: &Map<String, Value>, name: &str) -> bool {
    fields.get(name).is_some_and(Value::is_array)
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

/// Returns a field that may be absent or null.
pub(super) fn optional(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match given(fields, name) {
        None => Ok(None),
        Some(_) => text(fields, name).map(Some),
    }
}

/// Reads a conversation and the turns that follow. Of these alone the assistant's are learned.
fn continued(source: &Source<'_>) -> Result<Chat, String> {
    let mut chat = messages(source, "prompt")?;
    check_turns(&chat.messages)?;
    for part in &mut chat.parts {
        if *part == Part::Answer {
            *part = Part::Prompt;
        }
    }
    if !has_turns(source.fields, "completion") {
        return Err("`completion` must be a list of messages, as `prompt` is".into());
    }
    let completion = messages(source, "completion").and_then(Chat::checked);
    let completion = completion.map_err(|problem| format!("`completion`: {problem}"))?;
    chat.messages.extend(completion.messages);
    chat.parts.extend(completion.parts);
    Ok(chat)
}

/// Reads a conversation as ShareGPT writes it.
fn shared(source: &Source<'_>) -> Result<Chat, String> {
    const NAME: &str = "conversations";
    match turns(source, NAME)?.first() {
        // Some files of this kind have the usual names of fields.
        Some(first) if first.fields.contains_key("role") => messages(source, NAME),
        _ => of_turns(source, NAME, "from", "value"),
    }
}

/// Reads an instruction as Alpaca writes it.
fn alpaca(fields: &Map<String, Value>) -> Result<Chat, String> {
    let question = Message::user(alpaca_question(fields)?);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Record, String> {
        Record::parse(&serde_json::from_str(text).unwrap(), || {
            serde_json::from_str(text).unwrap()
        })
    }

    #[test]
    fn all_forms_are_read() {
        let chat = Record::Chat(Chat::new([
            (Message::system("s"), Part::Prompt),
            (Message::user("q\ni"), Part::Prompt),
            (Message::assistant("a"), Part::Answer),
        ]));
        for text in [
            r#"{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q\ni"}, {"role": "assistant", "content": "a"}]}"#,
            r#"{"system": "s", "conversations": [{"from": "human", "value": "q\ni"}, {"from": "gpt", "value": "a"}]}"#,
            r#"{"conversations": [{"role": "system", "content": "s"}, {"role": "user", "content": "q\ni"}, {"role": "assistant", "content": "a"}]}"#,
            r#"{"system": "s", "instruction": "q", "input": "i", "output": "a"}"#,
            r#"{"system": "s", "messages": [{"role": "user", "content": "q\ni"}, {"role": "assistant", "content": "a"}]}"#,
            r#"{"system": "s", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q\ni"}, {"role": "assistant", "content": "a"}]}"#,
            r#"{"system": "s", "prompt": [{"role": "user", "content": "q\ni"}], "completion": [{"role": "assistant", "content": "a"}]}"#,
        ] {
            assert_eq!(parse(text), Ok(chat.clone()), "{text}");
        }
        let continued = parse(
            r#"{"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}], "completion": [{"role": "assistant", "content": "a"}]}"#,
        );
        let expected = Record::Chat(Chat::new([
            (Message::user("q"), Part::Prompt),
            (Message::assistant("b"), Part::Prompt),
            (Message::assistant("a"), Part::Answer),
        ]));
        assert_eq!(continued, Ok(expected));
        let pair = parse(r#"{"prompt": "", "completion": "c"}"#);
        let expected = Record::Pair {
            prompt: String::new(),
            completion: "c".into(),
        };
        assert_eq!(pair, Ok(expected));
        assert_eq!(parse(r#"{"text": "t"}"#), Ok(Record::Text("t".into())));
        // Tables have nulls for the fields of other rows.
        let nulls = parse(r#"{"messages": null, "prompt": null, "text": "t"}"#);
        assert_eq!(nulls, Ok(Record::Text("t".into())));
        // Forms that published records repeat, and empty columns.
        for text in [
            r#"{"prompt": "q", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}"#,
            r#"{"text": null, "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}"#,
            r#"{"text": "q a", "instruction": "q", "output": "a"}"#,
        ] {
            assert!(matches!(parse(text), Ok(Record::Chat(_))), "{text}");
        }
    }

    #[test]
    fn calls_are_the_assistants_and_their_answers_are_of_a_tool() {
        let read = |text: &str| match parse(text) {
            Ok(Record::Chat(chat)) => chat,
            other => panic!("{text}: {other:?}"),
        };
        let usual = read(
            r#"{"tools": [{"type": "function", "function": {"name": "f"}}], "messages": [
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": null, "tool_calls": [{"name": "f", "arguments": {"x": 1}}]},
                {"role": "tool", "content": "1", "name": "f"},
                {"role": "assistant", "content": "a"}]}"#,
        );
        let parts = [Part::Prompt, Part::Answer, Part::Prompt, Part::Answer];
        assert_eq!(usual.parts, parts);
        assert!(usual.messages[0].tools.is_some());
        let names = |at: usize| -> Vec<&str> {
            usual.messages[at]
                .fields
                .iter()
                .map(|(name, _)| *name)
                .collect()
        };
        assert_eq!((names(1), names(2)), (vec!["tool_calls"], vec!["name"]));
        let older = read(
            r#"{"functions": [{"name": "f"}], "messages": [
                {"role": "user", "content": "q", "name": "Ada"},
                {"role": "assistant", "function_call": {"name": "f", "arguments": "{\"x\": 1}"}},
                {"role": "function", "content": "1", "name": "f"},
                {"role": "assistant", "content": "a"}]}"#,
        );
        assert_eq!(older, usual);
        let mut shared = read(
            r#"{"tools": "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]", "conversations": [
                {"from": "human", "value": "q"},
                {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"},
                {"from": "observation", "value": "1"},
                {"from": "gpt", "value": "a"}]}"#,
        );
        shared.messages[2]
            .fields
            .clone_from(&usual.messages[2].fields);
        assert_eq!(shared, usual);
    }

    /// Most records are read once: only some have values whose order templates write.
    #[test]
    fn the_order_of_fields_is_read_where_it_is_written() {
        let read = |text: &str| {
            let mut asked = false;
            let ordered = || {
                asked = true;
                serde_json::from_str(text).unwrap()
            };
            let value = serde_json::from_str(text).unwrap();
            Record::preferences(&value, Kind::Pairs, ordered).unwrap();
            asked
        };
        assert!(!read(
            r#"{"prompt": [{"role": "user", "content": "q"}], "chosen": [{"role": "assistant", "content": "a"}], "rejected": [{"role": "assistant", "content": "b"}]}"#
        ));
        assert!(read(
            r#"{"messages": [{"role": "user", "content": "q"}], "rejected": {"role": "assistant", "content": "b"},
                "chosen": {"role": "assistant", "content": null, "tool_calls": [{"name": "f", "arguments": {"z": 1, "a": 2}}]}}"#
        ));
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, expected) in [
            ("3", "expected a JSON object"),
            (
                r#"{"text": "t", "tools": [{"name": "f"}]}"#,
                "`tools` is not supported",
            ),
            (
                r#"{"prompt": "p", "completion": "c", "functions": "[{\"name\": \"f\"}]"}"#,
                "`functions` is not supported",
            ),
            (
                r#"{"messages": [{"role": "assistant", "content": "a", "reasoning_content": 3}]}"#,
                "message 1: `reasoning_content` must be a text",
            ),
            (
                r#"{"messages": [{"role": "user", "content": "a", "tool_calls": [{"name": "f"}]}]}"#,
                "message 1: a turn of the role `user` calls a function",
            ),
            (
                r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "tools": [{}, {"name": "f"}]}]}"#,
                "message 2: only the record or its first message can have `tools`",
            ),
            (
                r#"{"messages": [{"role": "assistant", "content": "a", "documents": ["d"]}]}"#,
                "message 1: `documents` is not supported",
            ),
            (
                r#"{"messages": [{"role": "assistant", "content": "a"}], "thinking": "t"}"#,
                "`thinking` is not supported",
            ),
            (
                r#"{"messages": [{"role": "assistant", "content": "a"}], "chat_template_kwargs": {"enable_thinking": false}}"#,
                "`chat_template_kwargs` is not supported",
            ),
            (
                r#"{"messages": [{"role": "assistant", "content": "a"}], "images": ["a.png"]}"#,
                "`images` is not supported",
            ),
            (
                r#"{"system": "t", "conversations": [{"from": "system", "value": "s"}, {"from": "gpt", "value": "a"}]}"#,
                "the record has `system`, and its first turn is the system's too",
            ),
            (
                r#"{"prompt": "p", "completion": "c", "system": "s"}"#,
                "`system` is of a conversation",
            ),
            (
                r#"{"prompt": "p", "completion": "c", "input": "i"}"#,
                "`input` goes with `instruction`",
            ),
            (
                r#"{"prompt": "p", "completion": "c", "suffix": "s"}"#,
                "`suffix` is not supported",
            ),
            (
                r#"{"prompt": [{"role": "user", "content": "q"}], "completion": "c"}"#,
                "`completion` must be a list of messages, as `prompt` is",
            ),
            (
                r#"{"text": "t", "images": ["a.png"]}"#,
                "`images` is not supported, as language models are trained without their towers",
            ),
            (
                r#"{"prompt": "p", "completion": "c", "image": "a.png"}"#,
                "`image` is not supported, as language models are trained without their towers",
            ),
            (
                r#"{"prompt": [], "chosen": [], "rejected": []}"#,
                "is a pair, for --loss dpo",
            ),
            (
                r#"{"prompt": "p", "completion": "c", "label": false}"#,
                "`label` is false",
            ),
            (
                r#"{"text": "t", "messages": [{"role": "assistant", "content": "a"}]}"#,
                "`messages` and `text` are two forms of a record",
            ),
            (
                r#"{"prompt": "p", "completion": "c", "text": "t"}"#,
                "`completion` and `text` are two forms",
            ),
            (
                r#"{"messages": [], "conversations": []}"#,
                "`messages` and `conversations` are two forms",
            ),
            ("{}", "expected `text`"),
            (r#"{"text": " "}"#, "the text is empty"),
            (r#"{"text": 3}"#, "`text` must be a text"),
            (r#"{"prompt": "p"}"#, "`completion` is missing"),
            (r#"{"completion": "p"}"#, "`prompt` is missing"),
            (
                r#"{"prompt": "p", "completion": "\n"}"#,
                "the completion is empty",
            ),
            (r#"{"messages": {}}"#, "`messages` must be a list"),
            (r#"{"messages": [3]}"#, "message 1: expected an object"),
            (
                r#"{"messages": [{"role": "user", "content": "q"}]}"#,
                "nothing to learn",
            ),
            (
                r#"{"messages": [{"role": "bot", "content": "q"}]}"#,
                "the role `bot` is unknown",
            ),
            (
                r#"{"messages": [{"role": "user"}]}"#,
                "message 1: `content` is missing",
            ),
            (
                r#"{"messages": [{"role": "assistant", "content": ""}]}"#,
                "turn is empty",
            ),
            (
                r#"{"conversations": [{"from": "dog", "value": "q"}]}"#,
                "the role `dog` is unknown",
            ),
            (
                r#"{"instruction": "q", "output": ""}"#,
                "message 2: the assistant's turn is empty",
            ),
            (r#"{"instruction": "q"}"#, "`output` is missing"),
            (
                r#"{"prompt": [{"role": "assistant", "content": "a"}], "completion": [{"role": "user", "content": "q"}]}"#,
                "`completion`: no turn is the assistant's",
            ),
            (
                r#"{"prompt": [], "completion": [{"role": "assistant", "content": ""}]}"#,
                "`completion`: message 1: the assistant's turn is empty",
            ),
        ] {
            let found = parse(text).unwrap_err();
            assert!(found.contains(expected), "{text}: {found}");
        }
    }
}
