//! The operands as the kernels read them.

use super::{Operands, WIDTHS};
use crate::packed::{Sequence, check_lengths, sequences};
use crate::{Columns, Element, PARALLEL, Real, Unwritten, View};
use std::ops::Range;

/// The number of channels that are computed together.
pub(super) const BLOCK: usize = 256;

/// The largest number of weights of a channel.
pub(super) const MOST: usize = *WIDTHS.end();

/// A row of a block of channels.
pub(super) type Row<A> = [A; BLOCK];

/// The operands of a call.
pub(super) struct Given<'a, T> {
    pub(super) batch: usize,
    pub(super) tokens: usize,
    pub(super) channels: usize,
    /// The number of weights of a channel.
    pub(super) width: usize,
    pub(super) sequences: Vec<Sequence>,
    x: Tokens<'a, T>,
    weight: &'a [T],
    bias: Option<&'a [T]>,
    /// The states, empty if they are zero.
    state: &'a [T],
    pub(super) silu: bool,
}

impl<'a, T: Element> Given<'a, T> {
    /// # Panics
    /// Panics if sizes or types don't go together, or if a tensor can't be read in place.
    pub(super) fn new(operands: &Operands<'a>) -> Self {
        let (sizes, of_weight) = (operands.x.sizes(), operands.weight.sizes());
        let &[batch, tokens, channels] = sizes else {
            panic!("inputs of sizes {sizes:?} are not channels of tokens")
        };
        let &[weights, width] = of_weight else {
            panic!("weights of sizes {of_weight:?} are not those of channels")
        };
        assert!(
            weights == channels && WIDTHS.contains(&width),
            "weights of sizes {of_weight:?} are not {} to {} for each of {channels} channels",
            WIDTHS.start(),
            WIDTHS.end()
        );
        let bias = operands.bias.as_ref();
        if let Some(bias) = bias {
            let found = bias.sizes();
            assert!(
                found == [channels],
                "a bias of sizes {found:?} is not one of {channels} channels"
            );
        }
        if let Some(lengths) = operands.lengths {
            check_lengths(lengths, batch, tokens);
        }
        let mut given = Self {
            batch,
            tokens,
            channels,
            width,
            sequences: sequences(operands.lengths, batch, tokens),
            x: Tokens::new(&operands.x, sizes),
            weight: operands.weight.contiguous(),
            bias: bias.map(View::contiguous),
            state: &[],
            silu: operands.silu,
        };
        given.state = given.states(operands.state.as_ref());
        given
    }

    /// Returns the sizes of the states.
    pub(super) fn state_sizes(&self) -> [usize; 3] {
        [self.sequences.len(), self.width - 1, self.channels]
    }

    /// Returns the elements of states or of their gradients, none if there are none.
    ///
    /// # Panics
    /// Panics if they have other sizes, another type or gaps.
    pub(super) fn states(&self, states: Option<&View<'a>>) -> &'a [T] {
        let Some(states) = states else { return &[] };
        let (found, sizes) = (states.sizes(), self.state_sizes());
        assert!(
            found == sizes,
            "states of sizes {found:?} are not {sizes:?}"
        );
        states.contiguous()
    }

    /// Reads a row before the first token of a sequence: row `row` of its state.
    #[inline(always)]
    pub(super) fn read_state(
        &self,
        states: &[T],
        (sequence, row): (usize, usize),
        channels: Range<usize>,
        to: &mut Row<T::Acc>,
    ) {
        if states.is_empty() {
            return to.fill(T::Acc::ZERO);
        }
        let start = (sequence * (self.width - 1) + row) * self.channels;
        load(&states[start..][channels], to);
    }

    /// Reads an input of a sequence. Those before the first token, counted from its state's first, are `0..width − 1`.
    #[inline(always)]
    pub(super) fn read(
        &self,
        index: usize,
        input: usize,
        channels: Range<usize>,
        to: &mut Row<T::Acc>,
    ) {
        let before = self.width - 1;
        match input.checked_sub(before) {
            None => self.read_state(self.state, (index, input), channels, to),
            Some(token) => {
                let Sequence { row, tokens } = &self.sequences[index];
                load(&self.x.row(*row, tokens.start + token)[channels], to);
            }
        }
    }

    /// Returns the weights and the bias of some channels, a row for each weight and one for the bias.
    pub(super) fn parameters(&self, channels: Range<usize>) -> Parameters<T::Acc> {
        let mut parameters = Parameters {
            weight: [[T::Acc::ZERO; BLOCK]; MOST],
            bias: [T::Acc::ZERO; BLOCK],
        };
        for (place, channel) in channels.clone().enumerate() {
            let weights = &self.weight[channel * self.width..][..self.width];
            for (row, weight) in parameters.weight.iter_mut().zip(weights) {
                row[place] = weight.load();
            }
        }
        if let Some(bias) = self.bias {
            load(&bias[channels], &mut parameters.bias);
        }
        parameters
    }

    /// Returns the tasks of a result, and of one with a row for each input of a state.
    pub(super) fn tasks<'o>(
        &self,
        mut rows: Unwritten<'o, T>,
        mut states: Unwritten<'o, T>,
    ) -> Vec<Task<'o, T>> {
        let mut tasks = Vec::new();
        if self.channels == 0 {
            return tasks;
        }
        // Sequences without tokens need a row, too.
        let count = if self.batch == 0 { 0 } else { self.tokens };
        let row = |_| {
            let row = rows.part(count * self.channels);
            row.columns(self.channels, BLOCK)
        };
        let mut rows: Vec<_> = (0..self.batch.max(1)).map(row).collect();
        for (index, sequence) in self.sequences.iter().enumerate() {
            let states = states.part((self.width - 1) * self.channels);
            let states = states.columns(self.channels, BLOCK);
            let rows = &mut rows[sequence.row];
            for (rows, state) in rows.iter_mut().zip(states) {
                tasks.push(Task {
                    index,
                    channels: state.start()..state.start() + state.width(),
                    rows: rows.part(sequence.tokens.len()),
                    state,
                });
            }
        }
        tasks
    }

    /// Returns whether it pays to wake other threads.
    pub(super) fn is_large(&self) -> bool {
        let sizes = [self.batch, self.tokens, self.channels];
        sizes.into_iter().fold(1, usize::saturating_mul) >= PARALLEL
    }
}

/// Some channels of a sequence, with their parts of results.
pub(super) struct Task<'a, T> {
    /// The number of the sequence.
    pub(super) index: usize,
    pub(super) channels: Range<usize>,
    pub(super) rows: Columns<'a, T>,
    pub(super) state: Columns<'a, T>,
}

/// The parameters of some channels.
pub(super) struct Parameters<A> {
    pub(super) weight: [Row<A>; MOST],
    pub(super) bias: Row<A>,
}

/// A tensor of `[batch, tokens, channels]` whose channels are contiguous.
pub(super) struct Tokens<'a, T> {
    data: &'a [T],
    start: isize,
    strides: [isize; 2],
    channels: usize,
}

impl<'a, T: Element> Tokens<'a, T> {
    /// # Panics
    /// Panics if the tensor has other sizes or another type, or if channels are not contiguous.
    pub(super) fn new(tensor: &View<'a>, sizes: &[usize]) -> Self {
        let (found, strides) = (tensor.sizes(), tensor.strides());
        assert!(
            found == sizes && sizes.len() == 3,
            "channels of tokens of sizes {found:?} are not {sizes:?}"
        );
        let channels = sizes[2];
        let is_empty = tensor.len() == 0;
        assert!(
            is_empty || channels == 1 || strides[2] == 1,
            "channels of sizes {sizes:?} with strides {strides:?} are not read in place"
        );
        Self {
            data: if is_empty { &[] } else { tensor.data() },
            start: tensor.start() as isize,
            strides: [strides[0], strides[1]],
            channels,
        }
    }

    /// Returns the channels of a token.
    #[inline(always)]
    pub(super) fn row(&self, row: usize, token: usize) -> &'a [T] {
        let [rows, tokens] = self.strides;
        let first = self.start + row as isize * rows + token as isize * tokens;
        &self.data[first as usize..][..self.channels]
    }
}

/// Loads a row.
#[inline(always)]
pub(super) fn load<T: Element>(from: &[T], to: &mut Row<T::Acc>) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = from.load();
    }
}

/// Returns the sum of weights and inputs, the oldest of which is at place `oldest` of the ring.
#[inline(always)]
pub(super) fn convolved<A: Real>(
    parameters: &Parameters<A>,
    ring: &[Row<A>; MOST],
    oldest: usize,
    width: usize,
    to: &mut Row<A>,
) {
    *to = parameters.bias;
    for (weight, age) in parameters.weight.iter().zip(0..width) {
        let x = &ring[(oldest + age) % width];
        for channel in 0..BLOCK {
            to[channel] = x[channel].mul_add(weight[channel], to[channel]);
        }
    }
}
