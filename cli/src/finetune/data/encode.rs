//! Records to token ids.

use super::chat;
use super::example::{Encoded, Example, Group, Groups};
use super::files::{Placed, report};
use super::pair::PairEncoder;
use super::pictures::Known;
use super::preferences::{Kind, Texts};
use super::record::Record;
use super::unlearned::Part;
use crate::text::{Chat, Date, TextError, Tokenizer};
use anyhow::ensure;
use kernels_io::escape;
use rayon::prelude::*;
use std::ops::Range;
use std::path::Path;

/// Turns records into token ids.
pub struct Encoder {
    text: Text,
    /// The token at the end of a text, if the tokenizer names one.
    end: Option<u32>,
    pairs: PairEncoder,
    /// The number of the model's embeddings.
    vocabulary: usize,
    /// The largest number of tokens of an example.
    length: usize,
    /// True if prompts are learned too.
    all: bool,
    /// The reader of pictures, if a record has some.
    pub(super) pictures: Option<Known>,
}

enum Text {
    Plain(Tokenizer),
    Chat(Chat),
}

/// The examples of a record, with the ends of its answers.
pub(super) type Found = (Vec<Example>, Vec<Option<u32>>);

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
        let pairs = PairEncoder::new(&tokenizer, end)?;
        let is_chat = |(_, record): &Placed| match record {
            Record::Text(_) | Record::Pair { .. } => false,
            Record::Chat(_) => true,
            Record::Preference(record) => matches!(record.texts, Texts::Chat { .. }),
            Record::Prompt(record) => matches!(record.texts, Texts::Chat { .. }),
        };
        let text = match records.iter().any(is_chat) {
            true => Text::Chat(Chat::open(folder, tokenizer)?),
            false => Text::Plain(tokenizer),
        };
        Ok(Self {
            text,
            end,
            pairs,
            vocabulary,
            length,
            all,
            pictures: None,
        })
    }

    /// Has the chat template write this date.
    #[must_use]
    pub fn dated(self, date: Date) -> Self {
        let text = match self.text {
            Text::Plain(tokenizer) => Text::Plain(tokenizer),
            Text::Chat(chat) => Text::Chat(chat.dated(date)),
        };
        Self { text, ..self }
    }

    /// Returns `true` if there is a chat template that writes the date.
    pub fn writes_date(&self) -> bool {
        matches!(&self.text, Text::Chat(chat) if chat.template().writes_date())
    }

    fn marks_answers(&self) -> bool {
        matches!(&self.text, Text::Chat(chat) if chat.template().marks_answers())
    }

    /// Returns the examples of records, in their order. `progress` is called again and again, with the number of records that
    /// are done.
    ///
    /// # Errors
    /// Returns an error that lists all records that can't be turned into token ids, and one if no example is left.
    pub fn encode(
        &self,
        records: &[Placed],
        progress: impl FnMut(usize),
    ) -> anyhow::Result<Encoded> {
        let mut encoded = Encoded::default();
        encoded.ends.are_marked = self.marks_answers();
        self.each(records, progress, |_, _, found| {
            self.add(&mut encoded, found)
        })?;
        ensure!(
            !encoded.examples.is_empty(),
            "no example has a token to learn within {} tokens; a larger --seq keeps more",
            self.length
        );
        Ok(encoded)
    }

    /// Returns the answers of records, in their order, as [`encode`](Self::encode) does. Those of a reward model are
    /// not cut off.
    ///
    /// # Errors
    /// Returns an error as `encode` does, which also lists records whose reference scored more of an answer than is read.
    pub fn encode_answers(
        &self,
        records: &[Placed],
        kind: Kind,
        progress: impl FnMut(usize),
    ) -> anyhow::Result<Groups> {
        let (mut found, mut scored) = (Groups::default(), Vec::new());
        found.ends.are_marked = self.marks_answers();
        self.each(records, progress, |place, record, (mut answers, ends)| {
            let Record::Preference(record) = record else {
                unreachable!("records of answers are read");
            };
            found.ends.add(ends);
            let is_long = answers
                .iter()
                .filter(|answer| answer.ids.len() > self.length);
            let cut = is_long.count();
            if kind == Kind::Scored && cut > 0 {
                // The score is that of the end.
                found.left_out.push(place.to_owned());
                return;
            }
            for answer in &mut answers {
                answer.cut(self.length);
            }
            if answers.iter().any(|answer| answer.targets() == 0) {
                found.left_out.push(place.to_owned());
                return;
            }
            if let [chosen, rejected] = &answers[..]
                && chosen == rejected
            {
                found.equal.push(place.to_owned());
                return;
            }
            if cut > 0 && record.reference.is_some() {
                scored.push(format!(
                    "{place}: an answer ends after {} tokens with its prompt, but the record has the reference's \
                     log-probability of the whole answer; a larger --seq keeps it",
                    self.length
                ));
            }
            found.cut += cut;
            found.groups.push(Group {
                answers,
                prompt: record.texts.prompt_number(),
                desirable: record.desirable,
                reference: record.reference.clone(),
                margin: record.margin,
            });
        })?;
        report(&scored)?;
        ensure!(
            !found.groups.is_empty(),
            "no record has room for an answer within {} tokens, or for two that differ; a larger --seq keeps more",
            self.length
        );
        Ok(found)
    }

    /// Passes the examples of each record to `take`, with its place.
    pub(super) fn each(
        &self,
        records: &[Placed],
        mut progress: impl FnMut(usize),
        mut take: impl FnMut(&str, &Record, Found),
    ) -> anyhow::Result<()> {
        const AT_ONCE: usize = 256;
        let mut problems = Vec::new();
        for (group, records) in records.chunks(AT_ONCE).enumerate() {
            progress(group * AT_ONCE);
            let found = records.par_iter().map(|(_, record)| self.examples(record));
            let found: Vec<Result<Found, TextError>> = found.collect();
            for ((place, record), found) in records.iter().zip(found) {
                match found {
                    Ok(found) => take(place, record, found),
                    Err(error) => problems.push(format!("{place}: {}", escape(&error.to_string()))),
                }
            }
        }
        report(&problems)
    }

    fn add(&self, encoded: &mut Encoded, (examples, ends): Found) {
        for mut example in examples {
            encoded.cut += usize::from(example.ids.len() > self.length);
            example.cut(self.length);
            match example.targets() {
                0 => encoded.left_out += 1,
                _ => encoded.examples.push(example),
            }
        }
        encoded.ends.add(ends);
    }

    /// Returns the tokenizer.
    pub fn into_tokenizer(self) -> Tokenizer {
        match self.text {
            Text::Plain(tokenizer) => tokenizer,
            Text::Chat(chat) => chat.into_tokenizer(),
        }
    }

    fn tokenizer(&self) -> &Tokenizer {
        match &self.text {
            Text::Plain(tokenizer) => tokenizer,
            Text::Chat(chat) => chat.tokenizer(),
        }
    }

    fn examples(&self, record: &Record) -> Result<Found, TextError> {
        match record {
            Record::Text(text) => Ok((self.pieces(text)?, Vec::new())),
            Record::Pair { prompt, completion } => {
                let (ids, start) = self.pairs.encode(self.tokenizer(), prompt, completion)?;
                let start = if self.all { 0 } else { start };
                let learned = std::iter::once(start..ids.len()).collect();
                Ok((vec![Example::new(ids, learned)], vec![self.end]))
            }
            Record::Chat(chat) => self.chat(chat),
            Record::Preference(record) => self.answers(&record.texts, record.desirable.is_some()),
            Record::Prompt(record) => self.prompted(record),
        }
    }

    /// Returns an example of each answer to a prompt. An answer begins with the first token in which any of them differs from
    /// the prompt, and has one end. `is_single` is true for one that another prompt can stand before.
    pub(super) fn answers(&self, texts: &Texts, is_single: bool) -> Result<Found, TextError> {
        let (mut all, mut ends) = (Vec::new(), Vec::new());
        match texts {
            Texts::Plain { prompt, answers } => {
                for answer in answers {
                    let text = [prompt.as_str(), answer].concat();
                    let mut ids = self.pairs.text(self.tokenizer(), &text)?;
                    ids.extend(self.end.filter(|end| ids.last() != Some(end)));
                    all.push(ids);
                    ends.push(self.end);
                }
            }
            Texts::Chat { prompt, answers } => {
                let Text::Chat(chat) = &self.text else {
                    unreachable!("conversations have a template");
                };
                for answer in answers {
                    let whole = [&prompt[..], answer].concat();
                    let tokens = chat.tokens(&whole)?;
                    let last = tokens
                        .answers
                        .last()
                        .and_then(|range| tokens.ids[range.clone()].last());
                    ends.push(last.copied().filter(|end| chat.is_end(*end)));
                    all.push(tokens.ids);
                }
            }
        }
        let prompt = self.prompt(texts)?;
        let common = |ids: &Vec<u32>| ids.iter().zip(&prompt).take_while(|(a, b)| a == b).count();
        let start = all.iter().map(common).min().unwrap_or(0);
        if let [chosen, rejected] = &all[..]
            && chosen == rejected
        {
            let problem = "the chosen and the rejected answer have the same tokens";
            return Err(TextError::Conversation(problem.into()));
        }
        if all.iter().any(|ids| ids.len() <= start) {
            let problem = "an answer has no token; a tokenizer with an `eos_token` gives it an end";
            return Err(TextError::Conversation(problem.into()));
        }
        if is_single && start == 0 {
            let problem = "the prompt has no token, so that no other answer can follow it";
            return Err(TextError::Conversation(problem.into()));
        }
        let example = |ids: Vec<u32>| {
            let learned = std::iter::once(start..ids.len()).collect();
            Example::new(ids, learned)
        };
        Ok((all.into_iter().map(example).collect(), ends))
    }

    /// Returns the tokens of a prompt, for a model to go on.
    pub(super) fn prompt(&self, texts: &Texts) -> Result<Vec<u32>, TextError> {
        match (texts, &self.text) {
            (Texts::Plain { prompt, .. }, _) => self.pairs.text(self.tokenizer(), prompt),
            (Texts::Chat { prompt, .. }, Text::Chat(chat)) => chat.prompt(prompt),
            (Texts::Chat { .. }, Text::Plain(_)) => unreachable!("conversations have a template"),
        }
    }

    /// Returns the largest number of tokens of an example.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Returns the number of the model's embeddings.
    pub(super) fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Returns a text in pieces that are not too long.
    fn pieces(&self, text: &str) -> Result<Vec<Example>, TextError> {
        let mut ids = self.tokenizer().encode_long(text)?;
        ids.extend(self.end.filter(|end| ids.last() != Some(end)));
        let whole = |ids: &[u32]| {
            let learned = std::iter::once(0..ids.len()).collect();
            Example::new(ids.to_vec(), learned)
        };
        Ok(ids.chunks(self.length).map(whole).collect())
    }

    fn chat(&self, record: &chat::Chat) -> Result<Found, TextError> {
        let Text::Chat(chat) = &self.text else {
            unreachable!("conversations have a template");
        };
        let tokens = chat.tokens(&record.messages)?;
        let turns = record.messages.iter().zip(&record.parts);
        let parts = turns.filter(|(message, _)| message.is_answer());
        let parts: Vec<Part> = parts.map(|(_, part)| *part).collect();
        if parts.len() != tokens.answers.len() && parts.iter().any(|part| *part != Part::Answer) {
            return Err(TextError::Conversation(format!(
                "some answers are not to be learned, but the chat template marks {} parts for {} answers, so which to leave \
                 out can't be told",
                tokens.answers.len(),
                parts.len()
            )));
        }
        let parts = parts.into_iter().chain(std::iter::repeat(Part::Answer));
        let answers = tokens.answers.into_iter().zip(parts);
        let (learned, others): (Vec<_>, Vec<_>) =
            answers.partition(|(_, part)| *part == Part::Answer);
        let end = |range: &Range<usize>| tokens.ids[range.clone()].last().copied();
        let ends = learned.iter().map(|(range, _)| end(range));
        let ends = ends
            .map(|end| end.filter(|end| chat.is_end(*end)))
            .collect();
        let learned = match self.all {
            true => {
                let unlearned = others
                    .into_iter()
                    .filter(|(_, part)| *part == Part::Unlearned);
                without(tokens.ids.len(), unlearned.map(|(range, _)| range))
            }
            false => learned.into_iter().map(|(range, _)| range).collect(),
        };
        let example = Example::new(tokens.ids, learned);
        let example = self.with_pictures(example, &record.pictures)?;
        Ok((vec![example], ends))
    }
}

/// Returns the ranges of `length` tokens outside of the given ones.
fn without(length: usize, ranges: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let (mut left, mut start) = (Vec::new(), 0);
    for range in ranges {
        left.push(start..range.start);
        start = range.end;
    }
    left.push(start..length);
    left.retain(|range| !range.is_empty());
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_token_is_no_target_and_a_cut_removes_targets() {
        let mut example = Example::new((0..10).collect(), vec![0..3, 6..9]);
        assert_eq!(example.targets(), 2 + 3);
        example.cut(7);
        assert_eq!((example.ids.len(), example.targets()), (7, 2 + 1));
        example.cut(1);
        assert_eq!(example.targets(), 0);
    }

    #[test]
    fn ranges_are_taken_away() {
        let left = |ranges: &[Range<usize>]| without(9, ranges.iter().cloned());
        assert_eq!(left(&[0..2, 5..6]), [2..5, 6..9]);
        assert_eq!(
            left(std::slice::from_ref(&(3..9))),
            [Range { start: 0, end: 3 }]
        );
    }
}
