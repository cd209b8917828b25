//! Token ids of long texts.
//!
//! A tokenizer takes hundreds of bytes of memory for each byte of a text. A long text is divided into pieces that overlap.
//! The tokens of a place depend on the text near it. Two pieces therefore have the same tokens in the middle of the text that
//! they share, and are joined there. Pieces are encoded by all cores.

use super::{Offsets, TextError, Tokenizer};
use rayon::prelude::*;
use std::ops::Range;

/// The bytes of a piece.
const PIECE: usize = 1 << 16;

/// The bytes that a piece has of each neighbour.
const SHARED: usize = 1 << 10;

/// The number of equal tokens in a row at a place where pieces are joined.
const ALIKE: usize = 16;

/// The number of pieces that are in memory at once.
const AT_ONCE: usize = 32;

impl Tokenizer {
    /// Returns the token ids of a text as [`Tokenizer::encode`] does, in little memory if the text is long.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails.
    pub fn encode_long(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let (mut ids, last) = self.added()?;
        match self.encode_pieces(text, |piece| ids.extend(piece.ids))? {
            true => ids.extend(last),
            false => ids = self.encode(text)?,
        }
        Ok(ids)
    }

    /// Returns the token ids of a text as [`Tokenizer::encode_plain`] does, in little memory if the text is long.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails.
    pub fn encode_plain_long(&self, text: &str) -> Result<Offsets, TextError> {
        let mut all = Offsets::default();
        let joined = self.encode_pieces(text, |piece| {
            all.ids.extend(piece.ids);
            all.bytes.extend(piece.bytes);
        })?;
        match joined {
            true => Ok(all),
            false => self.encode_plain(text),
        }
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

    /// Encodes a text in pieces. Returns `false` for a text that is short, or that has no place where pieces can be joined.
    fn encode_pieces(&self, text: &str, mut take: impl FnMut(Offsets)) -> Result<bool, TextError> {
        if text.len() < 2 * PIECE {
            return Ok(false);
        }
        let mut last: Option<Offsets> = None;
        for group in pieces(text).chunks(AT_ONCE) {
            let piece = |range: &Range<usize>| self.encode_piece(text, range.clone());
            let encoded = group.par_iter().map(piece).collect::<Result<Vec<_>, _>>()?;
            for mut piece in encoded {
                if let Some(mut before) = last.take() {
                    let Some((first, second)) = joint(&before, &piece) else {
                        return Ok(false);
                    };
                    before.ids.truncate(first);
                    before.bytes.truncate(first);
                    take(before);
                    piece.ids.drain(..second);
                    piece.bytes.drain(..second);
                }
                last = Some(piece);
            }
        }
        last.into_iter().for_each(take);
        Ok(true)
    }

    fn encode_piece(&self, text: &str, range: Range<usize>) -> Result<Offsets, TextError> {
        let mut piece = self.encode_plain(&text[range.clone()])?;
        for bytes in &mut piece.bytes {
            *bytes = range.start + bytes.start..range.start + bytes.end;
        }
        Ok(piece)
    }
}

/// Returns the pieces of a text, which overlap.
fn pieces(text: &str) -> Vec<Range<usize>> {
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
