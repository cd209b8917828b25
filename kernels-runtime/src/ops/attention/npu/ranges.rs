//! The keys that each query sees, on the host, and the masks that follow from them, on the device.

use super::super::Operands;
use crate::npu::{Result, Seen, Specified, base};
use crate::semantics::HeadLayout;
use burn_cann::ops::{compare, create};
use burn_cann::{DType, Stream, Tensor};
use std::ops::Range;

/// The keys that each query sees.
pub(super) struct Ranges {
    /// The number of sequences. It is 1 if all are alike.
    sequences: usize,
    queries: usize,
    keys: usize,
    /// The first keys that queries see, then the ends of those.
    ends: Vec<i32>,
    /// The queries that see no key, if there are any. Their range has the first key.
    blind: Option<Vec<bool>>,
}

impl Ranges {
    pub(super) fn new<T: Specified>(operands: &Operands<Seen<T>>) -> Self {
        let (sizes, visible) = (operands.sizes(), operands.visible());
        let sequences = match visible.is_one_for_all() {
            true => 1,
            false => sizes.batch,
        };
        let rows = sequences * sizes.queries;
        let mut ends = vec![0; 2 * rows];
        let mut blind = vec![false; rows];
        for (row, blind) in blind.iter_mut().enumerate() {
            let seen = visible.of(row / sizes.queries, row % sizes.queries);
            *blind = seen.is_empty();
            let seen = if seen.is_empty() { 0..1 } else { seen };
            ends[row] = place(seen.start);
            ends[rows + row] = place(seen.end);
        }
        Self {
            sequences,
            queries: sizes.queries,
            keys: sizes.keys,
            ends,
            blind: blind.contains(&true).then_some(blind),
        }
    }

    /// Makes the mask that is true for hidden keys, `[sequences, 1, queries, keys]`, or `[queries, keys]` if all
    /// sequences are alike.
    pub(super) fn hidden(&self, stream: &Stream) -> Result<Tensor> {
        self.ends(stream)?
            .hidden(stream, 0..self.queries, 0..self.keys)
    }

    /// Sends the ends of the keys that queries see.
    pub(super) fn ends(&self, stream: &Stream) -> Result<Ends> {
        let rows = match self.sequences {
            1 => vec![self.queries, 1],
            sequences => vec![sequences, 1, self.queries, 1],
        };
        let shape: Vec<usize> = [2].into_iter().chain(rows).collect();
        Ok(Ends(Tensor::from_slice(stream, &self.ends, shape)?))
    }

    /// Returns the keys that at least one of these queries sees, and those between them.
    pub(super) fn seen_by(&self, queries: Range<usize>) -> Range<usize> {
        let rows = self.sequences * self.queries;
        let of = |ends: &[i32]| -> Vec<usize> {
            let sequences = ends.chunks_exact(self.queries);
            let ends = sequences.flat_map(|sequence| &sequence[queries.clone()]);
            // The ends were made from indices.
            ends.map(|&end| end as usize).collect()
        };
        let start = of(&self.ends[..rows]).into_iter().min().unwrap_or(0);
        let end = of(&self.ends[rows..]).into_iter().max().unwrap_or(0);
        start..end.min(self.keys)
    }

    /// Makes the mask of the queries that see no key, if there are any.
    pub(super) fn blind(&self, stream: &Stream) -> Result<Option<Blind>> {
        let Some(blind) = &self.blind else {
            return Ok(None);
        };
        let shape = [self.sequences, 1, self.queries];
        Ok(Some(Blind(Tensor::from_bools(stream, blind, shape)?)))
    }
}

/// The first keys that queries see and the ends of those, `[2, queries, 1]` or `[2, sequences, 1, queries, 1]`.
pub(super) struct Ends(Tensor);

impl Ends {
    /// Makes the mask that is true for hidden ones of the keys, `[queries, keys]` or `[sequences, 1, queries, keys]`.
    pub(super) fn hidden(
        &self,
        stream: &Stream,
        queries: Range<usize>,
        keys: Range<usize>,
    ) -> Result<Tensor> {
        let ends = self.0.slice(self.0.shape().len() - 2, queries)?;
        let keys = create::arange(stream, DType::I32, place(keys.start), place(keys.end), 1)?;
        let before = compare::lower(stream, &keys, &ends.select(0, 0)?)?;
        let behind = compare::greater_equal(stream, &keys, &ends.select(0, 1)?)?;
        base::or(stream, &before, &behind)
    }
}

/// The queries that see no key, `[sequences or 1, 1, queries]`.
pub(super) struct Blind(Tensor);

impl Blind {
    /// Sets rows of the result to zero, and their `lse`, if it is kept, to `-∞`.
    pub(super) fn clear(
        &self,
        stream: &Stream,
        y: &Tensor,
        lse: Option<&Tensor>,
        layout: HeadLayout,
    ) -> Result<()> {
        let rows = self.0.unsqueeze(3)?;
        let rows = match layout {
            HeadLayout::Bnsd => rows,
            HeadLayout::Bsnd => rows.permute(&[0, 2, 1, 3])?,
        };
        base::masked_fill(stream, y, &rows, 0.0)?;
        match lse {
            Some(lse) => base::masked_fill(stream, lse, &self.0, f64::NEG_INFINITY),
            None => Ok(()),
        }
    }

    /// Sets maxima, `[batch, heads, queries, 8]`, so high that all weights of their rows are zero.
    pub(super) fn raise(&self, stream: &Stream, most: &Tensor) -> Result<()> {
        base::masked_fill(stream, most, &self.0.unsqueeze(3)?, f32::MAX.into())
    }
}

/// Returns the number of a key for the device. Scores of more keys have no memory.
fn place(key: usize) -> i32 {
    i32::try_from(key).unwrap_or(i32::MAX)
}
