//! Records to token ids.

use super::files::{Placed, report};
use super::record::Record;
use anyhow::ensure;
use kernels_cli::text::{Chat, Message, TextError, Tokenizer};
use kernels_io::escape;
use std::ops::Range;
use std::path::Path;

/// Token ids, and which of them the model learns to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The token ids.
    pub ids: Vec<u32>,
    /// The learned tokens, in order and apart.
    pub learned: Vec<Range<usize>>,
}

impl Example {
    /// Returns the number of learned tokens that follow another token.
    pub fn targets(&self) -> usize {
        let ranges = self
            .learned
            .iter()
            .map(|range| range.start.max(1)..range.end);
        ranges.map(|range| range.len()).sum()
    }

    /// Cuts the end off, so that at most `length` tokens are left.
    fn cut(&mut self, length: usize) {
        self.ids.truncate(length);
        for range in &mut self.learned {
            range.end = range.end.min(length);
            range.start = range.start.min(range.end);
        }
    }
}

/// The examples of files.
#[derive(Debug, Default)]
pub struct Encoded {
    /// The examples, each with a target.
    pub examples: Vec<Example>,
    /// The number of examples whose end was cut off.
    pub cut: usize,
    /// The number of examples that were left out, because no target was left.
    pub left_out: usize,
}

/// Turns records into token ids.
pub struct Encoder {
    text: Text,
    /// The token at the end of a text, if the tokenizer names one.
    end: Option<u32>,
    /// The largest number of tokens of an example.
    length: usize,
    /// True if prompts are learned too.
    all: bool,
}

enum Text {
    Plain(Tokenizer),
    Chat(Chat),
}

impl Encoder {
    /// Reads the tokenizer of a checkpoint, and its chat template if a record needs one.
    ///
    /// # Errors
    /// Returns an error if a file is missing or can't be read.
    pub fn open(
        folder: &Path,
        vocabulary: usize,
        records: &[Placed],
        (length, all): (usize, bool),
    ) -> anyhow::Result<Self> {
        let tokenizer = Tokenizer::open(folder, vocabulary)?;
        let end = tokenizer
            .special("eos_token")
            .and_then(|token| tokenizer.id(token));
        let is_chat =
            |(_, record): &Placed| matches!(record, Record::Chat(_) | Record::Continued { .. });
        let text = match records.iter().any(is_chat) {
            true => Text::Chat(Chat::open(folder, tokenizer)?),
            false => Text::Plain(tokenizer),
        };
        Ok(Self {
            text,
            end,
            length,
            all,
        })
    }

    /// Returns the examples of records.
    ///
    /// # Errors
    /// Returns an error that lists all records that can't be turned into token ids, and one if no example is left.
    pub fn encode(&self, records: &[Placed]) -> anyhow::Result<Encoded> {
        let mut encoded = Encoded::default();
        let mut problems = Vec::new();
        for (place, record) in records {
            match self.examples(record) {
                Ok(examples) => examples
                    .into_iter()
                    .for_each(|example| self.add(&mut encoded, example)),
                Err(error) => problems.push(format!("{place}: {}", escape(&error.to_string()))),
            }
        }
        report(&problems)?;
        ensure!(
            !encoded.examples.is_empty(),
            "no example has a token to learn within {} tokens; a larger --seq keeps more",
            self.length
        );
        Ok(encoded)
    }

    fn add(&self, encoded: &mut Encoded, mut example: Example) {
        encoded.cut += usize::from(example.ids.len() > self.length);
        example.cut(self.length);
        match example.targets() {
            0 => encoded.left_out += 1,
            _ => encoded.examples.push(example),
        }
    }

    fn tokenizer(&self) -> &Tokenizer {
        match &self.text {
            Text::Plain(tokenizer) => tokenizer,
            Text::Chat(chat) => chat.tokenizer(),
        }
    }

    fn examples(&self, record: &Record) -> Result<Vec<Example>, TextError> {
        match record {
            Record::Text(text) => self.pieces(text),
            Record::Pair { prompt, completion } => Ok(vec![self.pair(prompt, completion)?]),
            Record::Chat(messages) => Ok(vec![self.chat(messages, usize::MAX)?]),
            Record::Continued { prompt, completion } => {
                let learned = completion.iter().filter(|turn| turn.is_answer()).count();
                let messages = [&prompt[..], completion].concat();
                Ok(vec![self.chat(&messages, learned)?])
            }
        }
    }

    /// Returns a text in pieces that are not too long.
    fn pieces(&self, text: &str) -> Result<Vec<Example>, TextError> {
        let mut ids = self.tokenizer().encode(text)?;
        ids.extend(self.end.filter(|end| ids.last() != Some(end)));
        let whole = |ids: &[u32]| Example {
            ids: ids.to_vec(),
            learned: std::iter::once(0..ids.len()).collect(),
        };
        Ok(ids.chunks(self.length).map(whole).collect())
    }

    fn pair(&self, prompt: &str, completion: &str) -> Result<Example, TextError> {
        let mut ids = self.tokenizer().encode(prompt)?;
        // Some tokenizers end every text with a token, which would end this one before its completion.
        if ids.last().copied() == self.end {
            ids.pop();
        }
        let start = ids.len();
        ids.extend(self.tokenizer().encode_plain(completion)?.ids);
        ids.extend(self.end);
        let learned = if self.all {
            0..ids.len()
        } else {
            start..ids.len()
        };
        Ok(Example {
            learned: std::iter::once(learned).collect(),
            ids,
        })
    }

    /// Returns a conversation, of whose answers the last `count` are learned.
    fn chat(&self, messages: &[Message], count: usize) -> Result<Example, TextError> {
        let Text::Chat(chat) = &self.text else {
            unreachable!("conversations have a template");
        };
        let mut tokens = chat.tokens(messages)?;
        let first = tokens.answers.len().saturating_sub(count);
        let learned = match self.all {
            true => std::iter::once(0..tokens.ids.len()).collect(),
            false => tokens.answers.split_off(first),
        };
        Ok(Example {
            ids: tokens.ids,
            learned,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_token_is_no_target_and_a_cut_removes_targets() {
        let mut example = Example {
            ids: (0..10).collect(),
            learned: vec![0..3, 6..9],
        };
        assert_eq!(example.targets(), 2 + 3);
        example.cut(7);
        assert_eq!((example.ids.len(), example.targets()), (7, 2 + 1));
        example.cut(1);
        assert_eq!(example.targets(), 0);
    }
}
