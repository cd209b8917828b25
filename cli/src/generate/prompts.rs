//! The prompts of `--prompt` and `--prompts`.

use super::images::{self, Source};
use super::{Args, opening};
use crate::text::Message;
use anyhow::{Context, bail};
use kernels_io::{Limit, escape_path, read_text};
use serde_json::{Map, Value};
use std::io::Read;
use std::path::Path;

/// The input that the model continues.
#[derive(Debug, PartialEq, Eq)]
pub struct Prompt {
    /// A text or messages.
    pub content: Content,
    /// The pictures, in the order of their places in the content.
    pub pictures: Vec<Source>,
}

/// A text or messages that the model continues.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    /// A text.
    Text(String),
    /// A conversation, of `--chat`.
    Messages(Vec<Message>),
}

impl From<Content> for Prompt {
    fn from(content: Content) -> Self {
        Self {
            content,
            pictures: Vec::new(),
        }
    }
}

/// Reads the prompts. Returns `None` if the options name none.
///
/// # Errors
/// Returns an error that names the file and the line if the file can't be read or holds something else, or if it holds
/// no prompt; and for pictures of `--image` without one prompt that they are added to.
pub fn read(args: &Args) -> anyhow::Result<Option<Vec<Prompt>>> {
    if args.prompt.is_empty() && args.prompts.is_none() {
        return match args.image.is_empty() {
            true => Ok(None),
            false => bail!("--image needs --prompt, the message that goes with the pictures"),
        };
    }
    let mut prompts: Vec<Prompt> = args.prompt.iter().map(|text| prompt(args, text)).collect();
    if let Some(file) = &args.prompts {
        const LIMIT: Limit = Limit::mib("prompts", 1 << 10);
        const INPUT: &str = "standard input";
        let (source, text) = match file.as_os_str() == "-" {
            true => (INPUT.to_owned(), standard_input(LIMIT).context(INPUT)?),
            false => (escape_path(file), read_text(file, LIMIT)?),
        };
        prompts.extend(lines(args, file, &text).context(source)?);
    }
    if !args.image.is_empty() {
        images::add(args, &mut prompts)?;
    }
    Ok(Some(prompts))
}

/// Returns the prompt of a text: itself, or a message.
fn prompt(args: &Args, text: &str) -> Prompt {
    match args.chat {
        true => {
            let mut messages = opening(args);
            messages.push(Message::user(text));
            Content::Messages(messages).into()
        }
        false => Content::Text(text.to_owned()).into(),
    }
}

/// Returns the prompts of a file's text.
fn lines(args: &Args, file: &Path, text: &str) -> anyhow::Result<Vec<Prompt>> {
    // A byte order mark does not belong to the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let objects = match file.as_os_str() == "-" {
        true => begins_with_object(text),
        false => file.extension().is_some_and(|end| end == "jsonl"),
    };
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let one = |(at, line): (usize, &str)| match objects {
        true => object(args, file, line).with_context(|| format!("line {}", at + 1)),
        false => Ok(prompt(args, line)),
    };
    let prompts: Vec<Prompt> = lines.map(one).collect::<anyhow::Result<_>>()?;
    if prompts.is_empty() {
        bail!("it holds no prompt; each is a line");
    }
    Ok(prompts)
}

/// Reads standard input to its end.
fn standard_input(limit: Limit) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let input = std::io::stdin().lock();
    input.take(limit.bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit.bytes {
        bail!("{} may have at most {} bytes", limit.what, limit.bytes);
    }
    String::from_utf8(bytes).context("it is not valid UTF-8")
}

/// Returns `true` if the first line that is not empty is a JSON object.
fn begins_with_object(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty());
    first.is_some_and(|line| serde_json::from_str::<Map<String, Value>>(line).is_ok())
}

fn object(args: &Args, file: &Path, line: &str) -> anyhow::Result<Prompt> {
    let object: Map<String, Value> = serde_json::from_str(line).context("not a JSON object")?;
    let field = |name: &str| object.get(name);
    if let Some(name) = object
        .keys()
        .find(|name| !["prompt", "messages"].contains(&name.as_str()))
    {
        bail!(
            "field `{}` is unknown; an object has `prompt` or `messages`",
            kernels_io::escape(name)
        );
    }
    match (field("prompt"), field("messages")) {
        (Some(Value::String(text)), None) => Ok(prompt(args, text)),
        (None, Some(Value::Array(_))) if !args.chat => {
            bail!("`messages` are rendered by the chat template; add --chat")
        }
        (None, Some(Value::Array(list))) => {
            // Standard input, `-`, has the current folder.
            let folder = file.parent().unwrap_or(Path::new(""));
            let messages = list.iter().map(|value| message(value, folder));
            let messages: Vec<(Message, Vec<Source>)> = messages.collect::<anyhow::Result<_>>()?;
            let (messages, pictures): (Vec<Message>, Vec<Vec<Source>>) =
                messages.into_iter().unzip();
            let has_system = messages.first().is_some_and(|first| first.role == "system");
            let opening = if has_system {
                Vec::new()
            } else {
                opening(args)
            };
            Ok(Prompt {
                content: Content::Messages([opening, messages].concat()),
                pictures: pictures.into_iter().flatten().collect(),
            })
        }
        _ => bail!(
            "expected `prompt`, a text, or `messages`, a list of objects with `role` and `content`"
        ),
    }
}

/// Returns a message and its pictures, whose paths are relative to `folder`.
fn message(value: &Value, folder: &Path) -> anyhow::Result<(Message, Vec<Source>)> {
    let role = value.get("role").and_then(Value::as_str);
    match (value.as_object().map(Map::len), role, value.get("content")) {
        (Some(2), Some(role), Some(Value::String(content))) => {
            Ok((Message::new(role, content), Vec::new()))
        }
        (Some(2), Some(role), Some(parts @ Value::Array(_))) => {
            images::message(role, parts, folder)
        }
        _ => bail!(
            "a message is an object with the texts `role` and `content`, or a list of parts as `content`, and nothing \
             else"
        ),
    }
}
