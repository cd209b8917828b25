//! Sequences that lie one after the other in the rows of a batch.

use std::ops::Range;

/// A sequence: its row of the batch, and its tokens in this row.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The row of the batch.
    pub row: usize,
    /// The tokens of the row.
    pub tokens: Range<usize>,
}

/// Checks that each row of the batch is filled by sequences.
///
/// # Panics
/// Panics if one is not, or if there are more sequences.
pub fn check_lengths(lengths: &[usize], batch: usize, tokens: usize) {
    let mut left = lengths;
    for row in 0..batch {
        let mut filled = 0_usize;
        while filled < tokens {
            let Some((first, rest)) = left.split_first() else {
                break;
            };
            filled = filled.saturating_add(*first);
            left = rest;
        }
        assert!(
            filled == tokens,
            "sequences of lengths {lengths:?} don't fill row {row} of {tokens} tokens"
        );
    }
    assert!(
        left.iter().all(|length| *length == 0),
        "sequences of lengths {lengths:?} are more than {batch} rows of {tokens} tokens"
    );
}

/// Returns the sequences of [checked](check_lengths) lengths. Without lengths, each row is one.
pub fn sequences(lengths: Option<&[usize]>, batch: usize, tokens: usize) -> Vec<Sequence> {
    let Some(lengths) = lengths else {
        let whole = |row| Sequence {
            row,
            tokens: 0..tokens,
        };
        return (0..batch).map(whole).collect();
    };
    let (mut row, mut start) = (0, 0);
    let one = |length: &usize| {
        if *length > 0 && start == tokens {
            (row, start) = (row + 1, 0);
        }
        let first = start;
        start += *length;
        Sequence {
            row,
            tokens: first..start,
        }
    };
    lengths.iter().map(one).collect()
}
