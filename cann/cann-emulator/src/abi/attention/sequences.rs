//! The sequences of the layout TND, which follow one another in one axis.

use std::ops::Range;

use super::call::Plan;
use super::layout::by_head;
use crate::abi::prelude::*;
use crate::ops::attention::Sizes;

/// The most sequences of a call.
const MOST: usize = 2048;
/// The most tokens of all sequences.
const MOST_TOKENS: usize = 1 << 20;

/// The tokens of each sequence: those of its queries and those of its keys. A sequence may have none of both.
pub(super) type Sequences = Vec<[Range<usize>; 2]>;

/// Takes the ends of all sequences.
pub(super) fn take_sequences(
    operands: &Operands,
    [queries, keys]: [*const aclIntArray; 2],
    sizes: Sizes,
) -> Outcome<Sequences> {
    let queries = ends(operands, "actualSeqQLen", queries, sizes.queries)?;
    let keys = ends(operands, "actualSeqKvLen", keys, sizes.keys)?;
    ensure!(queries.len() == keys.len();
        "actualSeqQLen has {} sequences and actualSeqKvLen {}", queries.len(), keys.len());
    let sequences: Sequences = queries
        .into_iter()
        .zip(keys)
        .map(|(queries, keys)| [queries, keys])
        .collect();
    for [queries, keys] in &sequences {
        ensure!(queries.is_empty() == keys.is_empty();
            "a sequence of {} queries and {} keys is not emulated", queries.len(), keys.len());
    }
    Ok(sequences)
}

/// Returns the tokens of each sequence from the ends, of which zeros at the end of the list are left out.
fn ends(
    operands: &Operands,
    name: &str,
    array: *const aclIntArray,
    tokens: usize,
) -> Outcome<Vec<Range<usize>>> {
    ensure!(!array.is_null(), ACLNN_ERR_PARAM_NULLPTR;
        "{name} is NULL; TND needs the ends of all sequences");
    let ends: Arc<[i64]> = operands.ints(name, array)?;
    let count = ends
        .iter()
        .rposition(|end| *end != 0)
        .map_or(0, |at| at + 1);
    ensure!(ends.len() <= MOST && tokens <= MOST_TOKENS;
        "{name} has {} sequences of {tokens} tokens; at most {MOST} of {MOST_TOKENS} are taken",
        ends.len());
    let mut sequences = Vec::with_capacity(ends.len());
    let mut start = 0;
    for end in &ends[..count] {
        let end = usize::try_from(*end).unwrap_or(0);
        ensure!(end >= start; "{name} is {ends:?}; each sequence ends behind the one before");
        sequences.push(start..end);
        start = end;
    }
    ensure!(start == tokens;
        "{name} ends at {start}, but there are {tokens} tokens; tokens of no sequence are not \
         emulated");
    Ok(sequences)
}

/// A part of a call that is computed at once: all sequences, or one of the layout TND.
pub(super) struct Part {
    pub(super) sizes: Sizes,
    /// The number of its first batch, or of its sequence.
    pub(super) first: usize,
    /// The queries and keys of a sequence of TND.
    tokens: Option<[Range<usize>; 2]>,
}

impl Plan {
    /// Returns the parts of the call. Sequences without tokens have none.
    pub(super) fn parts(&self) -> Vec<Part> {
        let Some(sequences) = &self.sequences else {
            return vec![Part {
                sizes: self.sizes,
                first: 0,
                tokens: None,
            }];
        };
        let part = |(first, [queries, keys]): (usize, &[Range<usize>; 2])| Part {
            sizes: Sizes {
                queries: queries.len(),
                keys: keys.len(),
                ..self.sizes
            },
            first,
            tokens: Some([queries.clone(), keys.clone()]),
        };
        let all = sequences.iter().enumerate();
        all.filter(|(_, [queries, _])| !queries.is_empty())
            .map(part)
            .collect()
    }

    /// Returns the sizes of each part.
    pub(super) fn all_sizes(&self) -> impl Iterator<Item = Sizes> {
        self.parts().into_iter().map(|part| part.sizes)
    }

    /// Returns the part of a tensor like the queries, as `[batch, heads, tokens, width]`.
    pub(super) fn of_queries(&self, tensor: &Tensor, part: &Part) -> Outcome<Tensor> {
        let view = by_head("", tensor, &self.layout, self.sizes.heads)?;
        let tokens = part.tokens.as_ref();
        Ok(cut(view, tokens.map(|[queries, _]| queries)))
    }

    /// Returns the part of a tensor like the keys, as `[batch, heads, tokens, width]`.
    pub(super) fn of_keys(&self, tensor: &Tensor, part: &Part) -> Outcome<Tensor> {
        let view = by_head("", tensor, &self.layout, self.sizes.groups)?;
        Ok(cut(view, part.tokens.as_ref().map(|[_, keys]| keys)))
    }

    /// Returns the part of the statistics of queries. With TND, the memory has the statistics `[heads, queries, 8]` of
    /// the first sequence, then those of the second, whatever the shape says.
    pub(super) fn statistics(&self, tensor: &Tensor, part: &Part) -> Tensor {
        let Some([queries, _]) = &part.tokens else {
            return tensor.clone();
        };
        let (heads, rows) = (self.sizes.heads, queries.len());
        Tensor {
            shape: vec![1, heads, rows, 8],
            strides: vec![0, rows as i64 * 8, 8, 1],
            offset: tensor.offset + (queries.start * heads * 8) as i64,
            ..tensor.clone()
        }
    }
}

fn cut(view: Tensor, tokens: Option<&Range<usize>>) -> Tensor {
    let Some(tokens) = tokens else {
        return view;
    };
    let mut shape = view.shape.clone();
    shape[2] = tokens.len();
    Tensor {
        shape,
        offset: view.offset + view.strides[2] * tokens.start as i64,
        ..view
    }
}
