use super::Sizes;
use crate::ops::operands::{Mismatch, require};
use crate::semantics::{AttentionKey, SequenceLengths};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// The lengths of the sequences of a call, in positions.
///
/// With padding, there is one for each sequence. The keys behind it are hidden, or those before it if the padding is on
/// the left. With packed documents, they are the lengths of all documents of the first sequence, then of the second, and
/// so on; a document lies within a sequence.
///
/// They lie on the host, so that they can be checked before a kernel runs, and no device is waited for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Option<Vec<usize>>", into = "Option<Vec<usize>>")]
pub struct Lengths(Option<Ends>);

/// The lengths, and where each ends if all lie one after the other.
#[derive(Clone, Debug, PartialEq)]
struct Ends {
    lengths: Arc<[usize]>,
    ends: Arc<[usize]>,
}

impl Lengths {
    /// Returns the lengths of a call that has them. The default is a call that has none.
    pub fn new(lengths: &[usize]) -> Self {
        let ends = lengths.iter().scan(0_usize, |end, length| {
            *end = end.saturating_add(*length);
            Some(*end)
        });
        Self(Some(Ends {
            lengths: lengths.into(),
            ends: ends.collect(),
        }))
    }

    /// Returns the lengths, if there are any.
    pub fn get(&self) -> Option<&[usize]> {
        self.0.as_ref().map(|ends| &*ends.lengths)
    }

    /// Returns the ends of documents, counted from the first position of the first sequence.
    #[cfg(feature = "npu")]
    pub(super) fn ends(&self) -> &[usize] {
        self.0.as_ref().map_or(&[], |ends| &ends.ends)
    }

    /// Returns true if all sequences are as long as the axis, without padding and as one document each.
    #[cfg(feature = "npu")]
    pub(super) fn are_whole(&self, sizes: Sizes) -> bool {
        let is_whole = |lengths: &[usize]| {
            lengths.len() == sizes.batch && lengths.iter().all(|length| *length == sizes.keys)
        };
        self.get().is_none_or(is_whole)
    }

    /// Returns the keys of a sequence that a query may see: those of its document, or those before the padding.
    pub(super) fn of(
        &self,
        key: SequenceLengths,
        sequence: usize,
        query: usize,
        keys: usize,
    ) -> Range<usize> {
        let Some(Ends { lengths, ends }) = &self.0 else {
            return 0..keys;
        };
        match key {
            SequenceLengths::None => 0..keys,
            SequenceLengths::Padded => 0..lengths[sequence],
            SequenceLengths::LeftPadded => keys - lengths[sequence]..keys,
            SequenceLengths::Packed => {
                let before = sequence * keys;
                let document = ends.partition_point(|end| *end <= before + query);
                let end = ends[document];
                end - lengths[document] - before..end - before
            }
        }
    }

    /// Checks the lengths of a call.
    pub(super) fn check(
        &self,
        sizes: Sizes,
        key: AttentionKey,
        offset: Option<usize>,
    ) -> Result<(), Mismatch> {
        let Some(lengths) = self.get() else {
            require!(
                key.lengths == SequenceLengths::None,
                "Attention: {key} needs lengths, and there are none"
            );
            return Ok(());
        };
        match key.lengths {
            SequenceLengths::None => {
                require!(false, "Attention: there are lengths, but {key} has none");
                Ok(())
            }
            SequenceLengths::Padded | SequenceLengths::LeftPadded => check_padded(lengths, sizes),
            SequenceLengths::Packed => self.check_packed(sizes, offset),
        }
    }

    fn check_packed(&self, sizes: Sizes, offset: Option<usize>) -> Result<(), Mismatch> {
        let Sizes {
            batch,
            queries,
            keys,
            ..
        } = sizes;
        require!(
            queries == keys,
            "Attention: packed documents need as many queries as keys, but there are {queries} and {keys}"
        );
        require!(
            offset.is_none_or(|offset| offset == 0),
            "Attention: packed documents begin at the first key, so there is no offset of the queries"
        );
        let ends = self.0.as_ref().map_or(&[][..], |ends| &ends.ends);
        let total = ends.last().copied().unwrap_or(0);
        require!(
            Some(total) == batch.checked_mul(keys),
            "Attention: the documents have {total} positions in all, but there are {batch} sequences of {keys}"
        );
        for sequence in 1..batch {
            let start = sequence * keys;
            require!(
                start == 0 || ends.binary_search(&start).is_ok(),
                "Attention: a document lies in sequence {} and goes on in sequence {sequence}",
                sequence - 1
            );
        }
        Ok(())
    }
}

fn check_padded(lengths: &[usize], sizes: Sizes) -> Result<(), Mismatch> {
    let Sizes { batch, keys, .. } = sizes;
    require!(
        lengths.len() == batch,
        "Attention: there are {} lengths, but {batch} sequences",
        lengths.len()
    );
    for (sequence, length) in lengths.iter().enumerate() {
        require!(
            *length <= keys,
            "Attention: sequence {sequence} has a length of {length}, but there are only {keys} keys"
        );
    }
    Ok(())
}

impl From<Option<Vec<usize>>> for Lengths {
    fn from(lengths: Option<Vec<usize>>) -> Self {
        lengths.map_or_else(Self::default, |lengths| Self::new(&lengths))
    }
}

impl From<Lengths> for Option<Vec<usize>> {
    fn from(lengths: Lengths) -> Self {
        lengths.get().map(Vec::from)
    }
}
