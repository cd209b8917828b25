//! `{% generation %}`, the tag of transformers around the parts that the assistant writes.
//!
//! It becomes a `with` block, which has variables of its own too, and marks around the part. The marks are characters that
//! Unicode keeps for the inside of programs.

use super::Rendered;
use crate::text::TextError;
use std::ops::Range;

const BEGIN: char = '\u{fdd0}';
const END: char = '\u{fdd1}';

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
            // The tag on each side of a mark keeps what the template says of blanks there.
            "generation" => Some(format!("with mark = 0 %}}{BEGIN}{{% set mark = 0")),
            "endgeneration" => Some(format!("set mark = 0 %}}{END}{{% endwith")),
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
    // A template can write marks itself, so that they don't match.
    let mut begin = None;
    for c in marked.chars() {
        match c {
            BEGIN => begin = Some(text.len()),
            END => answers.extend(begin.take().map(|begin| begin..text.len())),
            c => text.push(c),
        }
    }
    Rendered { text, answers }
}

/// Returns an error if values hold a mark elsewhere.
pub(super) fn refuse_marks_in(values: &str) -> Result<(), TextError> {
    match values.contains([BEGIN, END]) {
        true => Err(TextError::Conversation(
            "the conversation holds U+FDD0 or U+FDD1, which Unicode forbids in text; remove it"
                .into(),
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_become_marks_and_keep_their_whitespace_control() {
        let (replaced, found) =
            replace("a{%- generation -%}b{% endgeneration+%}{% if generation %}{{ '%}' }}{%");
        assert!(found);
        assert_eq!(
            replaced,
            "a{%-  with mark = 0 %}\u{fdd0}{% set mark = 0  -%}b{%  set mark = 0 %}\u{fdd1}{% endwith +%}{% if generation %}\
             {{ '%}' }}{%"
        );
        let plain = "{% for m in messages %}{{ generation }}{% endfor %}";
        assert_eq!(replace(plain), (plain.to_owned(), false));
    }

    #[test]
    fn marks_in_messages_are_refused() {
        let said = refuse_marks(["a", "b\u{fdd1}"].into_iter()).unwrap_err();
        assert!(said.to_string().contains("message 2"), "{said}");
        assert!(refuse_marks_in("{\"a\": \"\u{fdd0}\"}").is_err() && refuse_marks_in("{}").is_ok());
    }

    #[test]
    fn parts_are_in_order_and_apart() {
        let Rendered { text, answers } =
            take_marks("a\u{fdd1}\u{fdd0}b\u{fdd0}c\u{fdd1}\u{fdd1}\u{fdd0}d");
        assert_eq!(
            (text.as_str(), answers.len(), &answers[0]),
            ("abcd", 1, &(2..3))
        );
    }
}
