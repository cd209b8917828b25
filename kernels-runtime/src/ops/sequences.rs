//! Packed sequences of operations that carry a state from token to token: it begins anew at each sequence.

use super::attention::Lengths;
use super::operands::{Mismatch, require};
use crate::semantics::{InitialState, SequenceLengths};
use burn::tensor::Tensor;
use kernels_simd::packed::{Sequence, sequences};

/// Checks that there are lengths exactly if the semantics have them, and that they fill the rows of a batch.
pub(crate) fn check(
    op: &str,
    (lengths, of_key): (&Lengths, SequenceLengths),
    [batch, tokens]: [usize; 2],
) -> Result<(), Mismatch> {
    require!(
        matches!(of_key, SequenceLengths::None | SequenceLengths::Packed),
        "{op}: the lengths of padded sequences are given, but the operation takes only those of packed ones; \
         set what is padding to zero"
    );
    let is_packed = of_key == SequenceLengths::Packed;
    require!(
        lengths.get().is_some() == is_packed,
        "{op}: lengths are {}, but the semantics have {}",
        if is_packed { "missing" } else { "given" },
        if is_packed {
            "packed sequences"
        } else {
            "none"
        }
    );
    let Some(lengths) = lengths.get() else {
        return Ok(());
    };
    let mut left = lengths;
    // Rows without tokens may be any number.
    let rows = if tokens == 0 { 0 } else { batch };
    for row in 0..rows {
        let mut filled = 0_usize;
        while filled < tokens
            && let Some((first, rest)) = left.split_first()
        {
            (filled, left) = (filled.saturating_add(*first), rest);
        }
        require!(
            filled == tokens,
            "{op}: the sequences don't fill row {row}, which has {tokens} tokens; a sequence lies within a row"
        );
    }
    require!(
        left.iter().all(|length| *length == 0),
        "{op}: there are more sequences than the {batch} rows of {tokens} tokens have"
    );
    Ok(())
}

/// Checks that the number of elements of the states can be counted. There are some even where there are no tokens.
pub(crate) fn check_states(op: &str, states: &[usize]) -> Result<(), Mismatch> {
    let elements = |product: usize, size: &usize| product.checked_mul(*size);
    require!(
        states.contains(&0) || states.iter().try_fold(1, elements).is_some(),
        "{op}: the last states are {states:?}, which is more elements than can be counted"
    );
    Ok(())
}

/// Returns the number of sequences.
pub(crate) fn count(lengths: &Lengths, batch: usize) -> usize {
    lengths.get().map_or(batch, <[usize]>::len)
}

/// Returns whether the semantics have a state before the first token.
pub(crate) fn has_state(key: InitialState) -> bool {
    key == InitialState::Given
}

/// Computes each sequence by itself, and joins the results and the last states along the axes of tokens and of
/// sequences.
///
/// `run` gets a function that takes the tokens of a sequence of a tensor, and its state. Without lengths, it gets all
/// rows at once. A sequence without tokens keeps its state.
pub(crate) fn each<const D: usize, const S: usize>(
    lengths: &Lengths,
    [batch, tokens]: [usize; 2],
    state: Tensor<S>,
    mut run: impl FnMut(&Take, Tensor<S>) -> (Tensor<D>, Tensor<S>),
) -> (Tensor<D>, Tensor<S>) {
    let Some(of) = lengths.get() else {
        return run(&Take(None), state);
    };
    let mut rows: Vec<Vec<Tensor<D>>> = vec![Vec::new(); batch];
    let mut states = Vec::new();
    for (at, sequence) in sequences(Some(of), batch, tokens).into_iter().enumerate() {
        let own = state.clone().narrow(0, at, 1);
        if sequence.tokens.is_empty() {
            states.push(own);
            continue;
        }
        let row = sequence.row;
        let (y, last) = run(&Take(Some(sequence)), own);
        rows[row].push(y);
        states.push(last);
    }
    let rows = rows.into_iter().map(|parts| Tensor::cat(parts, 1));
    (Tensor::cat(rows.collect(), 0), Tensor::cat(states, 0))
}

/// The tokens of a sequence, or all.
pub(crate) struct Take(Option<Sequence>);

impl Take {
    /// Returns these tokens of a tensor, `[batch, tokens, ..]`.
    pub(crate) fn of<const D: usize>(&self, tensor: &Tensor<D>) -> Tensor<D> {
        let Some(Sequence { row, tokens }) = &self.0 else {
            return tensor.clone();
        };
        let row = tensor.clone().narrow(0, *row, 1);
        row.narrow(1, tokens.start, tokens.len())
    }
}
