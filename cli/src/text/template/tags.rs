//! `{% generation %}`, the tag of transformers around the parts that the assistant writes.
//!
//! It becomes a `call` block of a function that puts marks around the part. The marks are characters that Unicode keeps
//! for the inside of programs.

use super::Rendered;
use crate::text::TextError;
use minijinja::value::Kwargs;
use minijinja::{Environment, Error, State, Value};
use std::ops::Range;

const BEGIN: char = '\u{fdd0}';
const END: char = '\u{fdd1}';
const FUNCTION: &str = "mark_answer";

/// Adds the function that the tag becomes a call of.
pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_function(FUNCTION, mark);
}

fn mark(state: &mut State<'_, '_>, parts: Kwargs) -> Result<Value, Error> {
    let caller: Value = parts.get("caller")?;
    let text = caller.call(state, &[])?;
    Ok(Value::from_safe_string(format!("{BEGIN}{text}{END}")))
}

/// Replaces the tags of a template. Returns `true` if there are any.
pub(super) fn replace(source: &str) -> (String, bool) {
    let (mut replaced, mut rest, mut found) = (String::new(), source, false);
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else {
            break;
        };
        let inside = start + 2..start + length;
        let word =
            rest[inside.clone()].trim_matches(|c: char| c.is_whitespace() || "-+".contains(c));
        let new = match word {
            "generation" => Some(format!("call {FUNCTION}()")),
            "endgeneration" => Some("endcall".to_owned()),
            _ => None,
        };
        if let Some(new) = new {
            found = true;
            replaced.push_str(&rest[..inside.start]);
            replaced.push_str(&rest[inside.clone()].replace(word, &format!(" {new} ")));
        } else {
            replaced.push_str(&rest[..inside.end]);
        }
        rest = &rest[inside.end..];
    }
    replaced.push_str(rest);
    (replaced, found)
}

/// Returns an error if a message holds a mark.
pub(super) fn refuse_marks<'a>(
    mut messages: impl Iterator<Item = &'a str>,
) -> Result<(), TextError> {
    match messages.position(|content| content.contains([BEGIN, END])) {
        Some(at) => Err(TextError::Conversation(format!(
            "message {} holds U+FDD0 or U+FDD1, which Unicode forbids in text; remove it",
            at + 1
        ))),
        None => Ok(()),
    }
}

/// Removes the marks from a text and returns the parts between them.
pub(super) fn take_marks(marked: &str) -> Rendered {
    let mut text = String::with_capacity(marked.len());
    let mut answers: Vec<Range<usize>> = Vec::new();
    let mut begin = 0;
    for c in marked.chars() {
        match c {
            BEGIN => begin = text.len(),
            END => answers.push(begin..text.len()),
            c => text.push(c),
        }
    }
    Rendered { text, answers }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_become_calls_and_keep_their_whitespace_control() {
        let (replaced, found) =
            replace("a{%- generation -%}b{% endgeneration+%}{% if generation %}{{ '%}' }}{%");
        assert!(found);
        assert_eq!(
            replaced,
            "a{%-  call mark_answer()  -%}b{%  endcall +%}{% if generation %}{{ '%}' }}{%"
        );
        let plain = "{% for m in messages %}{{ generation }}{% endfor %}";
        assert_eq!(replace(plain), (plain.to_owned(), false));
    }

    #[test]
    fn marks_in_messages_are_refused() {
        let said = refuse_marks(["a", "b\u{fdd1}"].into_iter()).unwrap_err();
        assert!(said.to_string().contains("message 2"), "{said}");
    }
}
