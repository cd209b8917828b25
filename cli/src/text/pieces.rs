//! Token ids of long texts.
//!
//! A tokenizer takes hundreds of bytes of memory for each byte of a text. A long text is divided into pieces that
//! overlap. The tokens of a place depend on the text near it. Two pieces therefore have the same tokens in the middle of
//! the text that they share, and are joined there. Pieces are encoded by all cores. Where neighbours have no such place,
//! as in a long run of blanks, they are encoded again together.

use super::{Offsets, TextError, Tokenizer};
use rayon::prelude::*;
use std::collections::VecDeque;
use std::ops::Range;

/// The bytes of a piece.
const PIECE: usize = 1 << 16;

/// The bytes that a piece has of each neighbour.
const SHARED: usize = 1 << 10;

/// The number of equal tokens in a row at a place where pieces are joined.
const ALIKE: usize = 16;

/// The number of pieces that are in memory at once.
const AT_ONCE: usize = 32;

/// The largest number of bytes that are encoded together because they can't be divided. They take about 700 MB.
const LONGEST: usize = 4 << 20;

impl Tokenizer {
    /// Returns the token ids of a text as [`Tokenizer::encode`] does, in little memory if the text is long.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails, or if a long text has no place to divide it, such as 5 MB of blanks.
    pub fn encode_long(&self, text: &str) -> Result<Vec<u32>, TextError> {
        if is_short(text) {
            return self.encode(text);
        }
        let (mut ids, last) = self.added()?;
        self.encode_pieces(text, LONGEST, |piece| ids.extend(piece.ids))?;
        ids.extend(last);
        Ok(ids)
    }

    /// Returns the token ids of a text as [`Tokenizer::encode_plain`] does, in little memory if the text is long.
    ///
    /// # Errors
    /// Returns an error as [`encode_long`](Self::encode_long) does.
    pub fn encode_plain_long(&self, text: &str) -> Result<Offsets, TextError> {
        if is_short(text) {
            return self.encode_plain(text);
        }
        let mut all = Offsets::default();
        self.encode_pieces(text, LONGEST, |piece| {
            all.ids.extend(piece.ids);
            all.bytes.extend(piece.bytes);
        })?;
        Ok(all)
    }

    /// Returns the tokens that the tokenizer adds before and behind a text.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails.
    pub fn added(&self) -> Result<(Vec<u32>, Vec<u32>), TextError> {
        let (all, plain) = (self.encode("x")?, self.encode_plain("x")?.ids);
        let mut places = 0..=all.len().saturating_sub(plain.len());
        let at = places.find(|at| all[*at..].starts_with(&plain));
        Ok(at.map_or_else(Default::default, |at| {
            (all[..at].to_vec(), all[at + plain.len()..].to_vec())
        }))
    }

    /// Encodes a long text in pieces. Pieces that can't be joined are encoded again together, at most `longest` bytes.
    fn encode_pieces(
        &self,
        text: &str,
        longest: usize,
        mut take: impl FnMut(Offsets),
    ) -> Result<(), TextError> {
        let mut pieces = Pieces {
            tokenizer: self,
            text,
            longest,
            ranges: ranges(text).into(),
            encoded: VecDeque::new(),
        };
        let Some(mut last) = pieces.pop()? else {
            return Ok(());
        };
        while let Some(mut next) = pieces.pop()? {
            match joint(&last.tokens, &next.tokens) {
                Some((end, begin)) => {
                    next.begin = begin;
                    take(last.own(end));
                    last = next;
                }
                None => last = pieces.together(&last, &next)?,
            }
        }
        let end = last.tokens.ids.len();
        take(last.own(end));
        Ok(())
    }
}

/// Returns `true` for a text that is encoded as a whole.
fn is_short(text: &str) -> bool {
    text.len() < 2 * PIECE
}

/// A piece of a text.
struct Piece {
    /// The bytes in the text.
    range: Range<usize>,
    tokens: Offsets,
    /// The first token after the place where the piece before is joined.
    begin: usize,
}

impl Piece {
    fn encode(tokenizer: &Tokenizer, text: &str, range: Range<usize>) -> Result<Self, TextError> {
        let mut tokens = tokenizer.encode_plain(&text[range.clone()])?;
        for bytes in &mut tokens.bytes {
            *bytes = range.start + bytes.start..range.start + bytes.end;
        }
        Ok(Self {
            range,
            tokens,
            begin: 0,
        })
    }

    /// Returns the tokens from `begin` to `end`.
    fn own(self, end: usize) -> Offsets {
        let Offsets { mut ids, mut bytes } = self.tokens;
        ids.truncate(end);
        bytes.truncate(end);
        ids.drain(..self.begin);
        bytes.drain(..self.begin);
        Offsets { ids, bytes }
    }
}

/// The pieces of a text that are not joined yet.
struct Pieces<'a> {
    tokenizer: &'a Tokenizer,
    text: &'a str,
    /// The largest number of bytes that are encoded together.
    longest: usize,
    /// The bytes of the pieces that are not encoded yet.
    ranges: VecDeque<Range<usize>>,
    /// The pieces before those.
    encoded: VecDeque<Piece>,
}

impl Pieces<'_> {
    /// Returns the next piece. Encodes several at once, by all cores.
    fn pop(&mut self) -> Result<Option<Piece>, TextError> {
        if self.encoded.is_empty() {
            let count = AT_ONCE.min(self.ranges.len());
            let group: Vec<Range<usize>> = self.ranges.drain(..count).collect();
            let (tokenizer, text) = (self.tokenizer, self.text);
            let piece = |range| Piece::encode(tokenizer, text, range);
            let encoded = group.into_par_iter().map(piece);
            self.encoded = encoded.collect::<Result<Vec<_>, _>>()?.into();
        }
        Ok(self.encoded.pop_front())
    }

    /// Encodes two pieces as one, with those behind them up to twice the length of the first: each byte is encoded few
    /// times even if a long text has no place to divide it.
    fn together(&mut self, first: &Piece, second: &Piece) -> Result<Piece, TextError> {
        let goal = first.range.start + (2 * first.range.len()).min(self.longest);
        let mut range = first.range.start..second.range.end;
        while let Some(end) = self.next_end().filter(|&end| end <= goal) {
            range.end = end;
            if self.encoded.pop_front().is_none() {
                self.ranges.pop_front();
            }
        }
        let undivided = format!(
            "bytes {} to {} of the text have no place to divide them; shorten runs of one character, such as blanks",
            range.start, range.end
        );
        if range.len() > self.longest {
            return Err(TextError::Tokenizer(undivided));
        }
        let mut both = Piece::encode(self.tokenizer, self.text, range)?;
        // The piece before was joined by these tokens.
        let known = match first.begin {
            0 => 0,
            begin => begin + ALIKE / 2,
        };
        let is_same = both.tokens.ids.get(..known) == first.tokens.ids.get(..known)
            && both.tokens.bytes.get(..known) == first.tokens.bytes.get(..known);
        if !is_same {
            return Err(TextError::Tokenizer(undivided));
        }
        both.begin = first.begin;
        Ok(both)
    }

    /// Returns the end of the next piece.
    fn next_end(&self) -> Option<usize> {
        let encoded = self.encoded.front().map(|piece| &piece.range);
        encoded.or(self.ranges.front()).map(|range| range.end)
    }
}

/// Returns the bytes of the pieces of a text, which overlap.
fn ranges(text: &str) -> Vec<Range<usize>> {
    let starts = (0..text.len() / PIECE).map(|number| number * PIECE);
    let ends = (1..text.len() / PIECE).map(|number| number * PIECE + SHARED);
    starts
        .zip(ends.chain([text.len()]))
        .map(|(start, end)| {
            let start = text.floor_char_boundary(start.saturating_sub(SHARED));
            start..text.ceil_char_boundary(end)
        })
        .collect()
}

/// Returns the number of tokens of a piece before the place where the next one goes on, and of the next one before it.
fn joint(first: &Offsets, second: &Offsets) -> Option<(usize, usize)> {
    let shared = second.bytes.first()?.start;
    let end = first.bytes.last()?.end;
    let mut a = first.bytes.partition_point(|bytes| bytes.start < shared);
    let (mut b, mut alike, mut best) = (0, 0, (0, None));
    while a < first.ids.len() && b < second.ids.len() && second.bytes[b].start < end {
        let (one, other) = (&first.bytes[a], &second.bytes[b]);
        if (first.ids[a], one) == (second.ids[b], other) {
            alike += 1;
            if alike > best.0 {
                best = (alike, Some((a + 1 - alike / 2, b + 1 - alike / 2)));
            }
        } else {
            alike = 0;
        }
        let (one, other) = (one.start, other.start);
        a += usize::from(one <= other);
        b += usize::from(other <= one);
    }
    best.1.filter(|_| best.0 >= ALIKE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Returns the ids of a text that is encoded in pieces.
    fn in_pieces(tokenizer: &Tokenizer, text: &str, longest: usize) -> Result<Vec<u32>, TextError> {
        let mut ids = Vec::new();
        tokenizer.encode_pieces(text, longest, |piece| ids.extend(piece.ids))?;
        Ok(ids)
    }

    /// Tokens of two characters fall on odd places before a piece of the run begins, and on even places after it.
    #[test]
    fn runs_that_are_too_long_are_refused() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/text");
        let tokenizer = Tokenizer::open(&fixtures.join("tiny"), 1000).unwrap();
        let words = "The river is walking. ".repeat(8000);
        let text = format!("{words}b{}{words}", "l".repeat(4 * PIECE));
        let whole = tokenizer.encode_plain(&text).unwrap().ids;
        assert!(in_pieces(&tokenizer, &text, 8 * PIECE).unwrap() == whole);
        let said = in_pieces(&tokenizer, &text, 3 * PIECE)
            .unwrap_err()
            .to_string();
        assert!(said.contains("have no place to divide them"), "{said}");
    }
}
