//! Examples as token ids, and the groups of those that answer one prompt.

use crate::pictures::Pictures;
use std::collections::BTreeSet;
use std::ops::Range;

/// Token ids, and which of them the model learns to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Example {
    /// The token ids.
    pub ids: Vec<u32>,
    /// The learned tokens, in order and apart.
    pub learned: Vec<Range<usize>>,
    /// The pictures among the tokens.
    pub pictures: Pictures,
}

impl Example {
    /// Returns an example without pictures.
    pub fn new(ids: Vec<u32>, learned: Vec<Range<usize>>) -> Self {
        Self {
            ids,
            learned,
            pictures: Pictures::default(),
        }
    }

    /// Returns the number of learned tokens that follow another token.
    pub fn targets(&self) -> usize {
        let ranges = self
            .learned
            .iter()
            .map(|range| range.start.max(1)..range.end);
        ranges.map(|range| range.len()).sum()
    }

    /// Returns the bytes of memory that the example takes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&self.ids[..])
            + size_of_val(&self.learned[..])
            + self.pictures.bytes()
    }

    /// Returns the prompt of this example with the answer of another, of at most `length` tokens.
    pub fn answered_by(&self, other: &Self, length: usize) -> Self {
        let begins = |example: &Self| example.learned.first().map_or(0, |range| range.start);
        let start = begins(self);
        let mut ids = self.ids[..start].to_vec();
        ids.extend(&other.ids[begins(other)..]);
        let learned = std::iter::once(start..ids.len()).collect();
        let mut example = Self::new(ids, learned);
        example.cut(length);
        example
    }

    /// Cuts the end off, so that at most `length` tokens are left, and no part of a picture.
    pub(super) fn cut(&mut self, length: usize) {
        let length = self.pictures.end(length);
        self.pictures.cut(length);
        self.ids.truncate(length);
        self.ids.shrink_to_fit();
        for range in &mut self.learned {
            range.end = range.end.min(length);
            range.start = range.start.min(range.end);
        }
        self.learned.retain(|range| !range.is_empty());
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
    /// The tokens that end answers and completions.
    pub ends: Ends,
}

/// The examples of one prompt: those of a pair or a single one, or an example of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The examples, whose learned tokens are the answers.
    pub answers: Vec<Example>,
    /// A number that tells their prompt apart.
    pub prompt: u64,
    /// True if the one answer is desirable.
    pub desirable: Option<bool>,
    /// The log-probabilities of the answers by the reference, if the record has them.
    pub reference: Option<Vec<f64>>,
    /// The least difference of a pair's scores, if the record has it.
    pub margin: Option<f64>,
}

/// The answers of files.
#[derive(Debug, Default)]
pub struct Groups {
    /// The answers, each with a target.
    pub groups: Vec<Group>,
    /// The number of answers whose end was cut off.
    pub cut: usize,
    /// The places of records that were left out, because their prompts leave no room for an answer.
    pub left_out: Vec<String>,
    /// The places of pairs that were left out, because the answers are equal as far as they are read.
    pub equal: Vec<String>,
    /// The tokens that end answers.
    pub ends: Ends,
}

/// The tokens that end answers and completions.
#[derive(Debug, Default)]
pub struct Ends {
    /// The tokens.
    pub tokens: BTreeSet<u32>,
    /// The number of answers and completions without one.
    pub missing: usize,
    /// True if the chat template itself marks the answers.
    pub are_marked: bool,
}

impl Ends {
    pub(super) fn add(&mut self, ends: Vec<Option<u32>>) {
        self.missing += ends.iter().filter(|end| end.is_none()).count();
        self.tokens.extend(ends.into_iter().flatten());
    }
}
