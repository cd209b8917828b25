//! An example of a run, with its learned tokens.

use super::data::Example;
use crate::text::{TextError, Tokenizer};
use anstyle::{AnsiColor, Style};
use kernels_io::{Look, escape_lines};
use serde::Serialize;
use std::ops::Range;

/// An example as text, in parts.
#[derive(Serialize)]
pub struct Sample(Vec<Part>);

#[derive(Serialize)]
struct Part {
    /// True if the model learns to write this part.
    learned: bool,
    text: String,
}

impl Sample {
    /// Returns the texts of answers to one prompt, with a heading behind the first.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails.
    pub fn of_answers(answers: &[Example], tokenizer: &Tokenizer) -> Result<Self, TextError> {
        let mut all = Self(Vec::new());
        for answer in answers {
            if !all.0.is_empty() {
                let text = "\nThe rejected answer:\n".to_owned();
                all.0.push(Part {
                    learned: false,
                    text,
                });
            }
            all.0.extend(Self::new(answer, tokenizer)?.0);
        }
        Ok(all)
    }

    /// Returns the text of an example, with one placeholder for each picture.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails.
    pub fn new(example: &Example, tokenizer: &Tokenizer) -> Result<Self, TextError> {
        let mut parts = Vec::new();
        let mut part = |learned, ids: &[u32]| -> Result<(), TextError> {
            if !ids.is_empty() {
                let text = tokenizer.decode_all(ids)?;
                parts.push(Part { learned, text });
            }
            Ok(())
        };
        let pictures = &example.pictures.list;
        let repeats = |at: usize| {
            let mut pictures = pictures.iter();
            pictures.any(|picture| picture.tokens.start < at && at < picture.tokens.end)
        };
        let shown = |range: Range<usize>| -> Vec<u32> {
            let places = range.filter(|at| !repeats(*at));
            places.map(|at| example.ids[at]).collect()
        };
        let mut done = 0;
        for range in &example.learned {
            part(false, &shown(done..range.start))?;
            part(true, &shown(range.clone()))?;
            done = range.end;
        }
        part(false, &shown(done..example.ids.len()))?;
        Ok(Self(parts))
    }

    /// Returns the escaped text for a place, with the learned parts marked: by a colour, or by brackets.
    pub fn show(&self, look: Look) -> String {
        let green = Style::new().fg_color(Some(AnsiColor::Green.into()));
        let part = |part: &Part| {
            let text = escape_lines(&part.text);
            match (part.learned, look.colours) {
                (false, _) => text.into_owned(),
                (true, true) => format!("{green}{text}{green:#}"),
                (true, false) => format!("⟦{text}⟧"),
            }
        };
        let text: String = self.0.iter().map(part).collect();
        let how = if look.colours {
            "in green"
        } else {
            "in ⟦⟧"
        };
        format!("The first example, with what is learned {how}:\n{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learned_parts_are_marked_and_texts_are_escaped() {
        let part = |learned, text: &str| Part {
            learned,
            text: text.to_owned(),
        };
        let sample = Sample(vec![part(false, "a\x1b[2J\n"), part(true, "b\x07")]);
        let show = |colours| {
            sample.show(Look {
                colours,
                ..Look::PLAIN
            })
        };
        assert!(
            show(false).ends_with(":\na\\u{1b}[2J\n⟦b\\u{7}⟧"),
            "{}",
            show(false)
        );
        assert!(
            show(true).ends_with("\n\x1b[32mb\\u{7}\x1b[0m"),
            "{}",
            show(true)
        );
    }
}
