//! One record of a data file, in the forms that are common.

use super::unlearned::{self, Part};
use kernels_cli::text::Message;
use serde_json::{Map, Value};

/// A record, by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A text, all of which is learned.
    Text(String),
    /// A prompt, and the completion that is learned.
    Pair { prompt: String, completion: String },
    /// A conversation, of which some of the assistant's turns are learned.
    Chat(Chat),
}

/// A conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chat {
    /// The turns.
    pub messages: Vec<Message>,
    /// What the model learns of each turn.
    pub parts: Vec<Part>,
}

/// The fields that change what a record means.
const UNKNOWN: [&str; 9] = [
    "tools",
    "functions",
    "tool_calls",
    "function_call",
    "history",
    "documents",
    "reasoning_content",
    "reasoning",
    "thinking",
];

/// The roles of a conversation.
const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];

impl Record {
    /// The fields of which a record has at least one.
    pub const FIELDS: [&str; 6] = [
        "text",
        "prompt",
        "completion",
        "messages",
        "conversations",
        "instruction",
    ];

    /// Reads a record from a JSON value.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn parse(value: &Value) -> Result<Self, String> {
        let Value::Object(fields) = value else {
            return Err("expected a JSON object".into());
        };
        refuse_unknown(fields)?;
        unlearned::refuse(fields)?;
        let has = |name: &str| fields.contains_key(name);
        if has("messages") {
            return messages(fields, "messages")?.checked().map(Self::Chat);
        }
        if has("conversations") {
            return shared(fields)?.checked().map(Self::Chat);
        }
        if has("instruction") {
            return alpaca(fields)?.checked().map(Self::Chat);
        }
        if has("prompt") && fields["prompt"].is_array() {
            return continued(fields).map(Self::Chat);
        }
        if has("prompt") || has("completion") {
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

impl Chat {
    fn new(turns: impl IntoIterator<Item = (Message, Part)>) -> Self {
        let (messages, parts) = turns.into_iter().unzip();
        Self { messages, parts }
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

/// Refuses fields that other programs learn from in another way. Without them, a record would mean something else.
fn refuse_unknown(fields: &Map<String, Value>) -> Result<(), String> {
    let says = |name: &&&str| match fields.get(**name) {
        None | Some(Value::Null) => false,
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(object)) => !object.is_empty(),
        // A list or an object can be written as text.
        Some(Value::String(text)) => !["", "[]", "{}", "null"].contains(&text.trim()),
        Some(_) => true,
    };
    match UNKNOWN.iter().find(says) {
        None => Ok(()),
        Some(name) => Err(format!(
            "`{name}` is not supported, and would change what is learned; remove it to learn without it"
        )),
    }
}

/// Checks the roles of turns, and that the assistant says something in its own.
fn check_turns(messages: &[Message]) -> Result<(), String> {
    for (at, message) in messages.iter().enumerate() {
        let number = at + 1;
        if !ROLES.contains(&message.role.as_str()) {
            return Err(format!(
                "message {number}: the role `{}` is unknown; roles are {}",
                message.role,
                ROLES.join(", ")
            ));
        }
        if message.is_answer() && message.content.trim().is_empty() {
            return Err(format!("message {number}: the assistant's turn is empty"));
        }
    }
    Ok(())
}

/// Returns a field that must be a text.
fn text(fields: &Map<String, Value>, name: &str) -> Result<String, String> {
    match fields.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("`{name}` must be a text")),
        None => Err(format!("`{name}` is missing")),
    }
}

/// Returns a field that may be absent or null.
fn optional(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => text(fields, name).map(Some),
    }
}

fn turns<'a>(
    fields: &'a Map<String, Value>,
    name: &str,
) -> Result<Vec<&'a Map<String, Value>>, String> {
    let turns = fields.get(name).and_then(Value::as_array);
    let turns = turns.ok_or_else(|| format!("`{name}` must be a list of messages"))?;
    let number = |(at, turn): (usize, &'a Value)| {
        let turn = turn.as_object();
        turn.ok_or_else(|| format!("message {}: expected an object", at + 1))
    };
    turns.iter().enumerate().map(number).collect()
}

fn messages(fields: &Map<String, Value>, name: &str) -> Result<Chat, String> {
    of_turns(fields, name, "role", "content", str::to_owned)
}

/// Reads the turns of a field, whose own fields have these names.
fn of_turns(
    fields: &Map<String, Value>,
    name: &str,
    role: &str,
    content: &str,
    named: impl Fn(&str) -> String,
) -> Result<Chat, String> {
    let message = |turn: &Map<String, Value>| {
        refuse_unknown(turn)?;
        let message = Message::new(named(&text(turn, role)?), text(turn, content)?);
        let part = unlearned::part(turn, &message)?;
        Ok((message, part))
    };
    let turns = turns(fields, name)?.into_iter().enumerate();
    let turns = turns.map(|(at, turn)| {
        message(turn).map_err(|problem: String| format!("message {}: {problem}", at + 1))
    });
    Ok(Chat::new(turns.collect::<Result<Vec<_>, _>>()?))
}

/// Reads a conversation and the turns that follow. Of these alone the assistant's are learned.
fn continued(fields: &Map<String, Value>) -> Result<Chat, String> {
    let mut chat = messages(fields, "prompt")?;
    check_turns(&chat.messages)?;
    for part in &mut chat.parts {
        if *part == Part::Answer {
            *part = Part::Prompt;
        }
    }
    let inside = |problem| format!("`completion`: {problem}");
    let completion = messages(fields, "completion").and_then(Chat::checked);
    let completion = completion.map_err(inside)?;
    chat.messages.extend(completion.messages);
    chat.parts.extend(completion.parts);
    Ok(chat)
}

/// Reads a conversation as ShareGPT writes it.
fn shared(fields: &Map<String, Value>) -> Result<Chat, String> {
    let named = |role: &str| match role {
        "human" => "user".to_owned(),
        "gpt" | "chatgpt" => "assistant".to_owned(),
        other => other.to_owned(),
    };
    let turns = match turns(fields, "conversations")?.first() {
        // Some files of this kind have the usual names of fields.
        Some(first) if first.contains_key("role") => messages(fields, "conversations")?,
        _ => of_turns(fields, "conversations", "from", "value", named)?,
    };
    with_system(fields, turns.messages.into_iter().zip(turns.parts))
}

/// Reads an instruction as Alpaca writes it.
fn alpaca(fields: &Map<String, Value>) -> Result<Chat, String> {
    let mut question = text(fields, "instruction")?;
    if let Some(input) = optional(fields, "input")?.filter(|input| !input.is_empty()) {
        question.push('\n');
        question.push_str(&input);
    }
    let answer = Message::assistant(text(fields, "output")?);
    with_system(
        fields,
        [
            (Message::user(question), Part::Prompt),
            (answer, Part::Answer),
        ],
    )
}

/// Returns turns, behind the field `system` if it holds a text.
fn with_system(
    fields: &Map<String, Value>,
    turns: impl IntoIterator<Item = (Message, Part)>,
) -> Result<Chat, String> {
    let system = optional(fields, "system")?.filter(|system| !system.is_empty());
    let system = system.map(|system| (Message::system(system), Part::Prompt));
    Ok(Chat::new(system.into_iter().chain(turns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Record, String> {
        Record::parse(&serde_json::from_str(text).unwrap())
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
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, expected) in [
            ("3", "expected a JSON object"),
            (
                r#"{"messages": [], "tools": [{"name": "f"}]}"#,
                "`tools` is not supported",
            ),
            (
                r#"{"messages": [], "tools": "[{\"name\": \"f\"}]"}"#,
                "`tools` is not supported",
            ),
            (
                r#"{"messages": [{"role": "assistant", "content": "a", "reasoning_content": "r"}]}"#,
                "message 1: `reasoning_content` is not supported",
            ),
            (
                r#"{"messages": [{"role": "assistant", "content": "a", "tool_calls": [{"name": "f"}]}]}"#,
                "message 1: `tool_calls` is not supported",
            ),
            (
                r#"{"prompt": "p", "completion": "c", "label": false}"#,
                "`label` is false",
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
