//! One record of a data file, in the forms that are common.

use kernels_cli::text::Message;
use serde_json::{Map, Value};

/// A record, by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A text, all of which is learned.
    Text(String),
    /// A prompt, and the completion that is learned.
    Pair { prompt: String, completion: String },
    /// A conversation, of which the assistant's turns are learned.
    Chat(Vec<Message>),
    /// A conversation, and the turns that follow. Of these alone the assistant's are learned.
    Continued {
        prompt: Vec<Message>,
        completion: Vec<Message>,
    },
}

/// The roles of a conversation.
const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];

impl Record {
    /// Reads a record from a JSON value.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn parse(value: &Value) -> Result<Self, String> {
        let Value::Object(fields) = value else {
            return Err("expected a JSON object".into());
        };
        refuse_unknown(fields)?;
        let has = |name: &str| fields.contains_key(name);
        if has("messages") {
            return messages(fields, "messages").and_then(Self::chat);
        }
        if has("conversations") {
            return shared(fields).and_then(Self::chat);
        }
        if has("instruction") {
            return alpaca(fields).and_then(Self::chat);
        }
        if has("prompt") && fields["prompt"].is_array() {
            let prompt = messages(fields, "prompt")?;
            check_turns(&prompt)?;
            let completion = messages(fields, "completion")?;
            check_turns(&completion).map_err(|problem| format!("`completion`: {problem}"))?;
            return match completion.iter().any(Message::is_answer) {
                true => Ok(Self::Continued { prompt, completion }),
                false => Err(
                    "no turn of `completion` is the assistant's, so there is nothing to learn"
                        .into(),
                ),
            };
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

    /// Checks a conversation.
    fn chat(messages: Vec<Message>) -> Result<Self, String> {
        check_turns(&messages)?;
        match messages.iter().any(Message::is_answer) {
            true => Ok(Self::Chat(messages)),
            false => Err("no turn is the assistant's, so there is nothing to learn".into()),
        }
    }
}

/// Refuses fields that other programs learn from in another way. Without them, a record would mean something else.
fn refuse_unknown(fields: &Map<String, Value>) -> Result<(), String> {
    let is_a_list = |name: &str| {
        let list = fields.get(name).and_then(Value::as_array);
        list.is_some_and(|list| !list.is_empty())
    };
    let lists = ["tools", "tool_calls", "history"];
    // A completion that is not to be learned.
    let is_bad = fields.get("label") == Some(&Value::Bool(false));
    let unknown = lists.into_iter().find(|name| is_a_list(name));
    match unknown.or(is_bad.then_some("label")) {
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

fn messages(fields: &Map<String, Value>, name: &str) -> Result<Vec<Message>, String> {
    of_turns(fields, name, "role", "content", str::to_owned)
}

/// Reads the turns of a field, whose own fields have these names.
fn of_turns(
    fields: &Map<String, Value>,
    name: &str,
    role: &str,
    content: &str,
    named: impl Fn(&str) -> String,
) -> Result<Vec<Message>, String> {
    let turns = turns(fields, name)?;
    let message = |(at, turn): (usize, &Map<String, Value>)| {
        let inside = |problem: String| format!("message {}: {problem}", at + 1);
        refuse_unknown(turn).map_err(inside)?;
        Ok(Message::new(
            named(&text(turn, role).map_err(inside)?),
            text(turn, content).map_err(inside)?,
        ))
    };
    turns.into_iter().enumerate().map(message).collect()
}

/// Reads a conversation as ShareGPT writes it.
fn shared(fields: &Map<String, Value>) -> Result<Vec<Message>, String> {
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
    let system = optional(fields, "system")?.filter(|system| !system.is_empty());
    Ok(system
        .map(Message::system)
        .into_iter()
        .chain(turns)
        .collect())
}

/// Reads an instruction as Alpaca writes it.
fn alpaca(fields: &Map<String, Value>) -> Result<Vec<Message>, String> {
    let mut question = text(fields, "instruction")?;
    if let Some(input) = optional(fields, "input")?.filter(|input| !input.is_empty()) {
        question.push('\n');
        question.push_str(&input);
    }
    let system = optional(fields, "system")?.filter(|system| !system.is_empty());
    let turns = [
        Message::user(question),
        Message::assistant(text(fields, "output")?),
    ];
    Ok(system
        .map(Message::system)
        .into_iter()
        .chain(turns)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Record, String> {
        Record::parse(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn all_forms_are_read() {
        let chat = Record::Chat(vec![
            Message::system("s"),
            Message::user("q\ni"),
            Message::assistant("a"),
        ]);
        for text in [
            r#"{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q\ni"}, {"role": "assistant", "content": "a"}]}"#,
            r#"{"system": "s", "conversations": [{"from": "human", "value": "q\ni"}, {"from": "gpt", "value": "a"}]}"#,
            r#"{"conversations": [{"role": "system", "content": "s"}, {"role": "user", "content": "q\ni"}, {"role": "assistant", "content": "a"}]}"#,
            r#"{"system": "s", "instruction": "q", "input": "i", "output": "a"}"#,
        ] {
            assert_eq!(parse(text), Ok(chat.clone()), "{text}");
        }
        let continued = parse(
            r#"{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]}"#,
        );
        let expected = Record::Continued {
            prompt: vec![Message::system("s"), Message::user("q")],
            completion: vec![Message::assistant("a")],
        };
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
                r#"{"messages": [{"role": "assistant", "content": "a", "tool_calls": [{"name": "f"}]}]}"#,
                "message 1: `tool_calls` is not supported",
            ),
            (
                r#"{"prompt": "p", "completion": "c", "label": false}"#,
                "`label` is not supported",
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
                "no turn of `completion` is the assistant's",
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
