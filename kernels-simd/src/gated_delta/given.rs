//! The operands as the kernels read them.

use super::{CHUNK, Operands, Sizes};
use crate::attention::Heads;
use crate::lanes::vectorize;
use crate::packed::{Sequence, check_lengths, sequences};
use crate::product::Gemm;
use crate::{Element, Real, View};
use std::ops::Range;

/// Returns the tokens of each chunk of a sequence.
pub(super) fn chunks(
    sequence: &Sequence,
) -> impl DoubleEndedIterator<Item = Range<usize>> + ExactSizeIterator + use<> {
    let Range { start, end } = sequence.tokens;
    let count = (end - start).div_ceil(CHUNK);
    (0..count).map(move |chunk| {
        let first = start + chunk * CHUNK;
        first..end.min(first + CHUNK)
    })
}

/// The operands of a call.
pub(super) struct Given<'a, T: Element> {
    pub(super) sizes: Sizes,
    pub(super) sequences: Vec<Sequence>,
    pub(super) q: Heads<'a, T>,
    pub(super) k: Heads<'a, T>,
    pub(super) v: Heads<'a, T>,
    pub(super) g: Heads<'a, T::Acc>,
    pub(super) beta: Heads<'a, T>,
    /// The first states, empty if they are zero.
    state: &'a [T::Acc],
    pub(super) scale: T::Acc,
    pub(super) normalise: bool,
}

impl<'a, T: Element> Given<'a, T>
where
    T::Acc: Gemm,
{
    /// # Panics
    /// Panics if sizes or types don't go together, or if a tensor can't be read in place.
    pub(super) fn new(operands: &Operands<'a>) -> Self {
        let sizes = sizes(operands);
        let Sizes {
            batch,
            tokens,
            heads,
            ..
        } = sizes;
        let of_keys = [batch, tokens, sizes.key_heads, sizes.key_width];
        let state = operands.state.as_ref();
        Self {
            sizes,
            sequences: sequences(operands.lengths, batch, tokens),
            q: Heads::new(&operands.q, of_keys),
            k: Heads::new(&operands.k, of_keys),
            v: Heads::new(&operands.v, [batch, tokens, heads, sizes.value_width]),
            g: Heads::new(
                &with_width(&operands.g),
                [batch, tokens, heads, sizes.decays],
            ),
            beta: Heads::new(&with_width(&operands.beta), [batch, tokens, heads, 1]),
            state: state.map_or(&[], |state| state.contiguous()),
            scale: T::Acc::of(operands.scale),
            normalise: operands.normalise,
        }
    }

    /// Returns the number of elements of a state.
    pub(super) fn state_len(&self) -> usize {
        self.sizes.key_width * self.sizes.value_width
    }

    /// Returns the first state of a head of a sequence.
    pub(super) fn state(&self, sequence: usize, head: usize) -> Vec<T::Acc> {
        let len = self.state_len();
        let start = (sequence * self.sizes.heads + head) * len;
        match self.state {
            [] => vec![Gemm::ZERO; len],
            states => states[start..start + len].to_vec(),
        }
    }
}

/// Returns a tensor of numbers for each head as rows of one element.
fn with_width<'a>(tensor: &View<'a>) -> View<'a> {
    let (sizes, strides) = (tensor.sizes(), tensor.strides());
    match sizes.len() {
        3 => tensor.under(&[sizes, &[1]].concat(), &[strides, &[1]].concat()),
        _ => tensor.clone(),
    }
}

/// Returns the sizes of a call.
///
/// # Panics
/// Panics if they don't go together.
pub(super) fn sizes(operands: &Operands<'_>) -> Sizes {
    let all = [&operands.q, &operands.k, &operands.v].map(View::sizes);
    let [
        &[batch, tokens, key_heads, key_width],
        of_k,
        &[v_batch, v_tokens, heads, value_width],
    ] = all
    else {
        panic!("queries, keys and values of sizes {all:?} are not heads of tokens")
    };
    assert!(
        of_k == operands.q.sizes() && [v_batch, v_tokens] == [batch, tokens],
        "queries, keys and values of sizes {all:?} don't go together"
    );
    let whole = heads.checked_rem(key_heads).is_none_or(|rest| rest == 0);
    assert!(
        whole && (key_heads > 0 || heads == 0),
        "{heads} heads of values can't share {key_heads} heads of keys equally"
    );
    assert!(
        key_width > 0 && value_width > 0,
        "heads of keys and values must have elements, but are {key_width} and {value_width} wide"
    );
    let of_numbers = [batch, tokens, heads];
    let decays = match operands.g.sizes() {
        found if found == of_numbers => 1,
        found if found == [batch, tokens, heads, key_width] => key_width,
        found => panic!(
            "decays of sizes {found:?} are not those of {of_numbers:?} heads of tokens with keys of {key_width} elements"
        ),
    };
    assert!(
        operands.beta.sizes() == of_numbers,
        "rates of sizes {:?} are not those of {of_numbers:?} heads of tokens",
        operands.beta.sizes()
    );
    if let Some(lengths) = operands.lengths {
        check_lengths(lengths, batch, tokens);
    }
    let sizes = Sizes {
        batch,
        tokens,
        key_heads,
        heads,
        key_width,
        value_width,
        decays,
        sequences: operands.lengths.map_or(batch, <[usize]>::len),
    };
    if let Some(state) = &operands.state {
        assert!(
            state.sizes() == sizes.states(),
            "states of sizes {:?} are not {:?}",
            state.sizes(),
            sizes.states()
        );
    }
    sizes
}

/// Reads the rows of a head of some tokens.
pub(super) fn read<T: Element>(
    from: &Heads<'_, T>,
    (row, head): (usize, usize),
    tokens: Range<usize>,
    to: &mut [T::Acc],
) {
    vectorize(Read {
        from,
        row,
        head,
        tokens,
        to,
    });
}

struct Read<'a, T: Element> {
    from: &'a Heads<'a, T>,
    row: usize,
    head: usize,
    tokens: Range<usize>,
    to: &'a mut [T::Acc],
}

impl<T: Element> pulp::WithSimd for Read<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let rows = self.to.chunks_exact_mut(self.from.width());
        for (to, token) in rows.zip(self.tokens) {
            for (to, from) in to.iter_mut().zip(self.from.row(self.row, token, self.head)) {
                *to = from.load();
            }
        }
    }
}
