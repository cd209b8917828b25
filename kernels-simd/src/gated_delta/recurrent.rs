//! The rule token by token, for decoding: a state is read and written once for each token, at the rate of the memory.

use super::chunk::norm_factor;
use super::given::Given;
use super::{Operands, Sizes};
use crate::attention::HeadRows;
use crate::lanes::vectorize;
use crate::packed::Sequence;
use crate::product::Gemm;
use crate::share::each;
use crate::{Element, Number as _, Output, Real, RowsOut as _, SliceMut, Values};
use std::ops::Range;

/// The largest number of tokens of a sequence for which this is faster than a chunk.
pub(super) const FEW: usize = 8;

/// The columns of a state that are computed together: their part of 128 rows stays in the first-level cache between the
/// read with the key and the change.
const COLUMNS: usize = 64;

/// The columns that are computed together where there are fewer.
const FEW_COLUMNS: usize = 16;

/// Returns the result, and changes the states in place.
pub(super) fn step<T: Element>(operands: &Operands<'_>, state: SliceMut<'_>) -> Values
where
    T::Acc: Gemm,
{
    let given = Given::<T>::new(operands);
    let (sizes, len) = (given.sizes, given.state_len());
    let states = state.into_slice::<T::Acc>();
    assert!(
        states.len() == sizes.sequences * sizes.heads * len,
        "states of {} elements are not {:?}",
        states.len(),
        sizes.states()
    );
    let mut y = Output::<T>::new([sizes.batch, sizes.tokens, sizes.heads, sizes.value_width]);
    {
        let mut y = super::forward::heads_out(y.rest(), sizes, sizes.value_width);
        let mut states = states.chunks_exact_mut(len);
        let mut tasks = Vec::new();
        for Sequence { row, tokens } in &given.sequences {
            for head in 0..sizes.heads {
                let y = y.take((*row, head), tokens.clone());
                let state = states.next().expect("a state for each head of a sequence");
                tasks.push(((*row, head), tokens.clone(), state, y));
            }
        }
        each(tasks, |(of, tokens, state, mut y)| {
            run(&given, of, tokens, state, &mut y);
        });
    }
    T::values(y.into_values())
}

/// Computes some tokens of a head.
pub(super) fn run<T: Element>(
    given: &Given<'_, T>,
    (row, head): (usize, usize),
    tokens: Range<usize>,
    state: &mut [T::Acc],
    y: &mut HeadRows<'_, T>,
) where
    T::Acc: Gemm,
{
    let zeros = |width| vec![<T::Acc as Gemm>::ZERO; width];
    let mut rows = Rows {
        q: zeros(given.sizes.key_width),
        k: zeros(given.sizes.key_width),
        decays: zeros(given.sizes.decays),
        y: zeros(given.sizes.value_width),
    };
    for token in tokens {
        vectorize(Token {
            given,
            at: (row, token, head),
            rows: &mut rows,
            state,
        });
        let width = given.sizes.value_width;
        y.next_row(width).write(rows.y.iter().map(|y| T::round(*y)));
    }
}

/// The rows of a token.
struct Rows<A> {
    q: Vec<A>,
    k: Vec<A>,
    /// `e^g`.
    decays: Vec<A>,
    y: Vec<A>,
}

struct Token<'a, 'b, T: Element> {
    given: &'a Given<'b, T>,
    at: (usize, usize, usize),
    rows: &'a mut Rows<T::Acc>,
    state: &'a mut [T::Acc],
}

impl<T: Element> pulp::WithSimd for Token<'_, '_, T>
where
    T::Acc: Gemm,
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let (given, rows, (row, token, head)) = (self.given, self.rows, self.at);
        let Sizes { value_width, .. } = given.sizes;
        let key_head = head / given.sizes.group();
        let scales = [given.scale, T::Acc::ONE];
        let operands = [(&given.q, &mut rows.q), (&given.k, &mut rows.k)];
        for ((from, to), scale) in operands.into_iter().zip(scales) {
            let from = from.row(row, token, key_head);
            to.iter_mut().zip(from).for_each(|(to, x)| *to = x.load());
            let factor = match given.normalise {
                true => norm_factor(to) * scale,
                false => scale,
            };
            to.iter_mut().for_each(|x| *x = *x * factor);
        }
        let g = given.g.row(row, token, head);
        for (to, g) in rows.decays.iter_mut().zip(g) {
            *to = g.exp();
        }
        let beta = given.beta.row(row, token, head)[0].load();
        let v = given.v.row(row, token, head);
        let of_keys = [&rows.q[..], &rows.k, &rows.decays];
        let mut start = 0;
        while start < value_width {
            let columns = Columns {
                state: &mut *self.state,
                stride: value_width,
                start,
                beta,
            };
            let (v, y) = (&v[start..], &mut rows.y[start..]);
            // A constant number of columns keeps their sums in registers.
            start += match value_width - start {
                COLUMNS.. => columns.run::<T, COLUMNS>(of_keys, v, y),
                FEW_COLUMNS.. => columns.run::<T, FEW_COLUMNS>(of_keys, v, y),
                _ => columns.run::<T, 1>(of_keys, v, y),
            };
        }
    }
}

/// Some columns of a state.
struct Columns<'a, A> {
    state: &'a mut [A],
    /// The distance between rows, and the first column.
    stride: usize,
    start: usize,
    beta: A,
}

impl<A: Gemm> Columns<'_, A> {
    /// Changes `N` columns, writes their products with the query, and returns `N`.
    #[inline(always)]
    fn run<T: Element<Acc = A>, const N: usize>(
        self,
        [q, k, decays]: [&[A]; 3],
        v: &[T],
        y: &mut [A],
    ) -> usize {
        let one = decays.len() == 1;
        let decay = |channel: usize| if one { decays[0] } else { decays[channel] };
        let rows = self.state.chunks_exact_mut(self.stride);
        let mut along = [A::zeroed(); N];
        for (channel, row) in rows.enumerate() {
            let row = &row[self.start..self.start + N];
            let factor = k[channel] * decay(channel);
            for i in 0..N {
                along[i] += row[i] * factor;
            }
        }
        let mut change = [A::zeroed(); N];
        for i in 0..N {
            change[i] = self.beta * (v[i].load() - along[i]);
        }
        let rows = self.state.chunks_exact_mut(self.stride);
        let mut sums = [A::zeroed(); N];
        for (channel, row) in rows.enumerate() {
            let row = &mut row[self.start..self.start + N];
            let (decay, k, q) = (decay(channel), k[channel], q[channel]);
            for i in 0..N {
                row[i] = row[i] * decay + k * change[i];
                sums[i] += row[i] * q;
            }
        }
        y[..N].copy_from_slice(&sums);
        N
    }
}
