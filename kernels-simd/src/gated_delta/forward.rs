//! The forward pass.

use super::chunk::{Chunk, Keys};
use super::given::{Given, chunks};
use super::{CHUNK, Found, Operands, Sizes, recurrent};
use crate::attention::{Extent, HeadRows, HeadsOut};
use crate::keys::HeadLayout;
use crate::packed::Sequence;
use crate::product::Gemm;
use crate::share::each;
use crate::{Element, Output, RowsOut, Unwritten, write_scaled};

/// Returns the result, the last states, and, if they are `wanted`, the matrices `T`.
pub(super) fn forward<T: Element>(operands: &Operands<'_>, wanted: bool) -> Found
where
    T::Acc: Gemm,
{
    let given = Given::<T>::new(operands);
    let sizes = given.sizes;
    let mut y = Output::<T>::new([sizes.batch, sizes.tokens, sizes.heads, sizes.value_width]);
    let mut states = Output::<T::Acc>::new(sizes.states());
    let mut inverses = match wanted {
        true => Output::<T::Acc>::new(sizes.inverses()),
        false => Output::none(),
    };
    {
        let mut y = heads_out(y.rest(), sizes, sizes.value_width);
        let mut kept = wanted.then(|| {
            let extent = extent(sizes, CHUNK);
            HeadsOut::new(inverses.rest(), extent, HeadLayout::Bnsd)
        });
        let mut states = states.rest();
        let mut tasks = Vec::new();
        for (index, sequence) in given.sequences.iter().enumerate() {
            for head in 0..sizes.heads {
                let of = (sequence.row, head);
                tasks.push(Task {
                    index,
                    sequence,
                    head,
                    y: y.take(of, sequence.tokens.clone()),
                    inverses: kept
                        .as_mut()
                        .map(|kept| kept.take(of, sequence.tokens.clone())),
                    state: states.part(given.state_len()),
                });
            }
        }
        each(tasks, |task| task.run(&given));
    }
    Found {
        y: T::values(y.into_values()),
        state: T::Acc::values(states.into_values()),
        inverses: wanted.then(|| T::Acc::values(inverses.into_values())),
    }
}

/// Returns the extent of a result with a row of `width` elements for each token and head of values.
pub(super) fn extent(sizes: Sizes, width: usize) -> Extent {
    Extent {
        batch: sizes.batch,
        heads: sizes.heads,
        rows: sizes.tokens,
        width,
    }
}

/// Returns the places of a result `[batch, tokens, heads, width]`.
pub(super) fn heads_out<T: Copy>(
    out: Unwritten<'_, T>,
    sizes: Sizes,
    width: usize,
) -> HeadsOut<'_, T> {
    HeadsOut::new(out, extent(sizes, width), HeadLayout::Bsnd)
}

/// A head of a sequence, with its parts of the results.
struct Task<'a, T: Element> {
    /// The number of the sequence.
    index: usize,
    sequence: &'a Sequence,
    head: usize,
    y: HeadRows<'a, T>,
    inverses: Option<HeadRows<'a, T::Acc>>,
    state: Unwritten<'a, T::Acc>,
}

impl<T: Element> Task<'_, T>
where
    T::Acc: Gemm,
{
    fn run(mut self, given: &Given<'_, T>) {
        let Sequence { row, tokens } = self.sequence;
        let mut state = given.state(self.index, self.head);
        if self.inverses.is_none() && tokens.len() <= recurrent::FEW {
            let of = (*row, self.head);
            recurrent::run(given, of, tokens.clone(), &mut state, &mut self.y);
        } else {
            self.chunks(given, &mut state);
        }
        self.state.row(state.len()).copy(&state);
    }

    fn chunks(&mut self, given: &Given<'_, T>, state: &mut [T::Acc]) {
        let Sizes {
            value_width: width, ..
        } = given.sizes;
        let row = self.sequence.row;
        let (mut keys, mut chunk) = (Keys::new(given.sizes), Chunk::new(given.sizes));
        let mut y = vec![<T::Acc as Gemm>::ZERO; CHUNK * width];
        let ones = [<T::Acc as crate::Real>::ONE; CHUNK];
        for tokens in chunks(self.sequence) {
            let len = tokens.len();
            let of_keys = (row, self.head / given.sizes.group());
            keys.read(given, of_keys, tokens.clone());
            keys.multiply(given.sizes, true);
            chunk.read(given, &keys, (row, self.head), tokens);
            chunk.score(&keys, true);
            chunk.invert(&keys);
            chunk.multiply(&keys);
            chunk.subtract(&keys, state);
            chunk.result(&keys, state, &mut y);
            chunk.advance(&keys, state);
            write_scaled(&y[..len * width], width, &ones[..len], &mut self.y);
            if let Some(inverses) = &mut self.inverses {
                for row in chunk.inverse.chunks_exact(CHUNK).take(len) {
                    inverses.next_row(CHUNK).copy(row);
                }
            }
        }
    }
}
