//! The assistant's turns in a rendered conversation whose template does not mark them.
//!
//! The conversation is rendered a second time, with marks around the text of each answer and before the names of functions
//! that it calls, and the marks say where each is.
//! The marks are characters that Unicode keeps for the inside of programs. A turn begins where the template has the model
//! begin, before that text, and ends with the token that ends it. Past turns can be written otherwise than the last one is:
//! nothing depends on what else the template writes before them.

use super::{ChatTemplate, Message, TextError};
use minijinja::Value;
use std::collections::BTreeMap;
use std::ops::Range;

const OPEN: char = '\u{fdd2}';
const CLOSE: char = '\u{fdd3}';
const CALL: char = '\u{fdd5}';
/// The end of a mark's number.
const STOP: char = '\u{fdd4}';

/// A turn of the assistant.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// Its bytes in the rendered conversation, with the token that ends it.
    pub(super) bytes: Range<usize>,
    /// The token that should end it, if the template leaves it out because no turn follows.
    pub(super) unwritten: Option<u32>,
}

impl From<Range<usize>> for Answer {
    fn from(bytes: Range<usize>) -> Self {
        Self {
            bytes,
            unwritten: None,
        }
    }
}

/// Finds the assistant's turns in a conversation.
pub(super) struct Finder<'a> {
    template: &'a ChatTemplate,
    /// The special tokens.
    special: &'a [(String, u32)],
    /// The token at the end of a text.
    eos: Option<&'a str>,
    messages: &'a [Message],
    /// The rendered conversation.
    text: &'a str,
    /// The text with which the template has the model begin, by the role of the message before.
    begins: BTreeMap<&'a str, String>,
    /// The text that the template writes behind an answer, in its turn.
    tail: Option<String>,
}

/// The bytes at which the text of a message begins and ends, and at which its calls are.
#[derive(Clone, Default)]
struct Place {
    open: Option<usize>,
    close: Option<usize>,
    calls: Vec<usize>,
}

impl Place {
    /// Returns the first byte that is known to be the message's.
    fn first(&self) -> Option<usize> {
        let text = self.open.or(self.close);
        text.into_iter().chain(self.calls.first().copied()).min()
    }

    /// Returns the last byte that is known to be the message's.
    fn last(&self) -> Option<usize> {
        self.close
            .into_iter()
            .chain(self.calls.last().copied())
            .max()
    }
}

impl<'a> Finder<'a> {
    pub(super) fn new(
        template: &'a ChatTemplate,
        (special, eos): (&'a [(String, u32)], Option<&'a str>),
        messages: &'a [Message],
        text: &'a str,
    ) -> Self {
        Self {
            template,
            special,
            eos: eos.filter(|eos| !eos.is_empty()),
            messages,
            text,
            begins: BTreeMap::new(),
            tail: None,
        }
    }

    /// Returns the assistant's turns, in their order.
    ///
    /// # Errors
    /// Returns an error if the template fails, or if it does not write an answer as it is.
    pub(super) fn answers(mut self) -> Result<Vec<Answer>, TextError> {
        let marked = marked(self.messages, Message::is_answer);
        let (text, places) = take_marks(&self.template.render(&marked, false)?);
        let mut answers: Vec<Answer> = Vec::new();
        for (at, message) in self.messages.iter().enumerate() {
            if !message.is_answer() {
                continue;
            }
            let place = self.place(at, &places).filter(|_| text == self.text);
            let place = place.filter(|place| {
                let is_text = message.content.trim().is_empty() || place.close.is_some();
                is_text && place.calls.len() >= message.calls().len()
            });
            let ends = place.and_then(|place| Some((place.first()?, place.last()?)));
            let (first, last) = ends.ok_or_else(|| lost(at))?;
            let from = answers.last().map_or(0, |answer| answer.bytes.end);
            let begin = self.begin(at, from..first.max(from))?;
            let (end, unwritten) = self.end(at, last)?;
            answers.push(Answer {
                bytes: begin..end,
                unwritten,
            });
        }
        Ok(answers)
    }

    /// Returns the place of a message. Templates can name a called function again in the turn of its answer.
    fn place(&self, at: usize, places: &BTreeMap<usize, Place>) -> Option<Place> {
        let mut place = places.get(&at)?.clone();
        place.calls.truncate(self.messages[at].calls().len());
        Some(place)
    }

    /// Returns the byte at which the model begins with an answer, whose text is at the end of the region.
    fn begin(&mut self, at: usize, region: Range<usize>) -> Result<usize, TextError> {
        let role = match at {
            0 => "",
            _ => self.messages[at - 1].role.as_str(),
        };
        if !self.begins.contains_key(role) {
            let text = self.begin_behind(&self.messages[..at])?;
            self.begins.insert(role, text);
        }
        let begin = &self.begins[role];
        // Some templates begin with thoughts, which they leave out of past turns.
        let shorter = begin.match_indices(['<', '[']).map(|(at, _)| at).rev();
        let found = std::iter::once(begin.len())
            .chain(shorter)
            .filter(|length| *length > 0)
            .find_map(|length| {
                let found = self.text[region.clone()].rfind(&begin[..length]);
                found.map(|at| region.start + at + length)
            });
        Ok(found.unwrap_or(region.end))
    }

    /// Returns the text with which the template has the model begin behind messages.
    fn begin_behind(&self, messages: &[Message]) -> Result<String, TextError> {
        let Some(last) = messages.len().checked_sub(1) else {
            // Nothing precedes the answer, and few templates render nothing.
            let begin = self.begin_behind(&[Message::user("x")]);
            return Ok(begin.unwrap_or_default());
        };
        let asks = self.template.render(messages, true)?;
        let plain = self.template.render(messages, false)?;
        if let Some(begin) = asks.strip_prefix(&plain).filter(|begin| !begin.is_empty()) {
            return Ok(begin.to_owned());
        }
        // The template ends the turn before with it.
        let marked = marked_one(messages, last);
        let (text, places) = take_marks(&self.template.render(&marked, true)?);
        let close = places.get(&last).and_then(|place| place.close);
        let close = close.filter(|_| text == asks);
        Ok(close.map_or_else(String::new, |close| text[close..].to_owned()))
    }

    /// Returns the end of an answer of which `last` is the last known byte, and the token that ends it if it is not written.
    fn end(&mut self, at: usize, last: usize) -> Result<(usize, Option<u32>), TextError> {
        let behind = &self.text[last..];
        let own = match at + 1 == self.messages.len() {
            true => behind.len(),
            false => self.own(at, behind)?,
        };
        let (own, next) = behind.split_at(own);
        if let Some(eos) = self.eos
            && let Some(at) = own.find(eos)
        {
            return Ok((last + at + eos.len(), None));
        }
        let ends = self.special.iter().filter_map(|(token, _)| {
            let end = own.rfind(token.as_str())? + token.len();
            own[end..].trim().is_empty().then_some(end)
        });
        if let Some(end) = ends.max() {
            return Ok((last + end, None));
        }
        let all = last + own.len();
        if let Some((length, _)) = self.first_special(next) {
            return Ok((all + length, None));
        }
        match next.is_empty() {
            true => Ok((all, self.unwritten(at, own))),
            false => Ok((all, None)),
        }
    }

    /// Returns the number of bytes behind the text of an answer that belong to its turn.
    fn own(&mut self, at: usize, behind: &str) -> Result<usize, TextError> {
        if let Some(tail) = &self.tail
            && self.messages[at].calls().is_empty()
            && behind.starts_with(tail)
        {
            return Ok(tail.len());
        }
        let messages = &self.messages[..=at];
        let (text, places) = take_marks(&self.template.render(&marked_one(messages, at), false)?);
        let last = self.place(at, &places).and_then(|place| place.last());
        let tail = &text[last.ok_or_else(|| lost(at))?..];
        let same = tail.chars().zip(behind.chars());
        let same = same.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8());
        let same: usize = same.sum();
        if self.messages[at].calls().is_empty() {
            self.tail = Some(tail.to_owned());
        }
        // The end of a last turn can be another token than that of others, with the same first letters.
        let split = (0..same).rev().find(|at| {
            let is_split = |(token, _): &(String, u32)| {
                behind.is_char_boundary(*at)
                    && at + token.len() > same
                    && behind[*at..].starts_with(token.as_str())
            };
            self.special.iter().any(is_split)
        });
        Ok(split.unwrap_or(same))
    }

    /// Returns the end and the id of the special token that a text begins with, but for blanks.
    fn first_special(&self, text: &str) -> Option<(usize, u32)> {
        let rest = text.trim_start();
        let blank = text.len() - rest.len();
        let first = self
            .special
            .iter()
            .find(|(token, _)| rest.starts_with(token));
        first.map(|(token, id)| (blank + token.len(), *id))
    }

    /// Returns the token that follows the last answer if a user goes on.
    fn unwritten(&self, at: usize, own: &str) -> Option<u32> {
        let mut messages = marked_one(self.messages, at);
        messages.push(Message::user("x"));
        let (text, places) = take_marks(&self.template.render(&messages, false).ok()?);
        let behind = &text[self.place(at, &places)?.last()?..];
        let next = behind.strip_prefix(own)?;
        self.first_special(next).map(|(_, id)| id)
    }
}

fn lost(at: usize) -> TextError {
    TextError::Conversation(format!(
        "message {}: the chat template leaves this answer out or changes its text, so its tokens can't be found; a template \
         with the tags {{% generation %}} and {{% endgeneration %}} around answers can be used",
        at + 1
    ))
}

fn marked_one(messages: &[Message], at: usize) -> Vec<Message> {
    let mut messages = messages.to_vec();
    messages[at] = mark(&messages[at], at);
    messages
}

fn marked(messages: &[Message], is_marked: impl Fn(&Message) -> bool) -> Vec<Message> {
    let message = |(at, message): (usize, &Message)| match is_marked(message) {
        true => mark(message, at),
        false => message.clone(),
    };
    messages.iter().enumerate().map(message).collect()
}

/// Returns a message with marks around its text. Templates remove blanks at both ends, and thoughts before the text.
fn mark(message: &Message, at: usize) -> Message {
    const THOUGHTS: &str = "</think>";
    let content = &message.content;
    let end = content.trim_end().len();
    let thoughts = content.rfind(THOUGHTS).map_or(0, |at| at + THOUGHTS.len());
    let thoughts = if thoughts < end { thoughts } else { 0 };
    let start = end - content[thoughts..end].trim_start().len();
    let (before, text, behind) = (&content[..start], &content[start..end], &content[end..]);
    let mut marked = message.clone();
    // Templates ask whether there is a text.
    if !text.is_empty() {
        marked.content = format!("{before}{OPEN}{at}{STOP}{text}{CLOSE}{at}{STOP}{behind}");
    }
    let calls: Vec<Value> = message
        .calls()
        .iter()
        .map(|call| mark_call(call, at))
        .collect();
    for (name, value) in &mut marked.fields {
        if *name == Message::CALLS {
            *value = Value::from(calls.clone());
        }
    }
    marked
}

/// Returns a call with a mark before the name of its function.
fn mark_call(call: &Value, at: usize) -> Value {
    let entries = call.try_iter().into_iter().flatten();
    let entry = |key: Value| {
        let value = call.get_item(&key).unwrap_or_default();
        let value = match key.as_str() {
            Some("name") => Value::from(format!("{CALL}{at}{STOP}{value}")),
            Some("function") => mark_call(&value, at),
            _ => value,
        };
        (key, value)
    };
    Value::from_pairs(entries.map(entry))
}

/// Removes the marks from a text, and returns the places between them.
fn take_marks(marked: &str) -> (String, BTreeMap<usize, Place>) {
    let mut text = String::with_capacity(marked.len());
    let mut places = BTreeMap::<usize, Place>::new();
    let mut rest = marked;
    while let Some(at) = rest.find([OPEN, CLOSE, CALL]) {
        let (before, mark) = rest.split_at(at);
        text += before;
        let mut mark = mark.chars();
        let kind = mark.next();
        let (number, behind) = mark.as_str().split_once(STOP).unwrap_or_default();
        if let Ok(number) = number.parse() {
            let place = places.entry(number).or_default();
            match kind {
                Some(OPEN) => place.open = Some(text.len()),
                Some(CLOSE) => place.close = Some(text.len()),
                _ => place.calls.push(text.len()),
            }
        }
        rest = behind;
    }
    (text + rest, places)
}
