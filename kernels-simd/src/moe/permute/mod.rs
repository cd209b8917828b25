//! Moving tokens to rows and back. One thread writes each row of a result, once.

mod slots;

pub use slots::{counts, row_map};

use super::numbers;
use crate::{Context, Element, Kernel, Output, Real, Row, Unwritten, Values, View, run, with_type};
use slots::invert;
use std::ops::Range;

/// The row of each slot, `[tokens, k]`. An entry that is not the number of a row belongs to no row.
#[derive(Clone, Copy, Debug)]
pub struct RowMap<'a> {
    entries: &'a [i64],
    tokens: usize,
    choices: usize,
}

impl<'a> RowMap<'a> {
    /// Makes the map of `choices` slots of each token.
    ///
    /// # Panics
    /// Panics if there are more or fewer entries.
    pub fn new(entries: &'a [i64], [tokens, choices]: [usize; 2]) -> Self {
        assert!(
            tokens.checked_mul(choices) == Some(entries.len()),
            "moe_permute: {} entries are not the rows of {tokens} tokens of {choices} choices",
            entries.len()
        );
        Self {
            entries,
            tokens,
            choices,
        }
    }
}

/// The gradients of rows that were multiplied by probabilities and added up.
#[derive(Clone, Debug)]
pub struct Gradients {
    /// The gradient of the rows, `[R, H]`.
    pub rows: Values,
    /// The gradient of the probabilities, `[tokens, k]`, in their type.
    pub probs: Values,
}

/// Copies the token of each slot to its row, multiplied by the slot's probability if probabilities are given. Returns
/// `[rows, H]` of contiguous tokens, `[tokens, H]`, zero for rows that have no slot.
///
/// # Panics
/// Panics if sizes or types don't go together, if a tensor is not contiguous, or if two slots have the same row.
pub fn spread(
    tokens: &View<'_>,
    row_map: RowMap<'_>,
    probs: Option<&View<'_>>,
    rows: usize,
) -> Values {
    with_type!(tokens.dtype(), T => {
        let probs = probs.map(|probs| load::<T>(probs, row_map));
        spread_in::<T>(tokens, row_map, probs.as_deref(), rows)
    })
}

/// Adds up the rows of each token's slots, multiplied by their probabilities if these are given. Returns `[tokens, H]` of
/// contiguous rows, `[R, H]`.
///
/// # Panics
/// Panics if sizes or types don't go together, or if a tensor is not contiguous.
pub fn gather(rows: &View<'_>, row_map: RowMap<'_>, probs: Option<&View<'_>>) -> Values {
    with_type!(rows.dtype(), T => {
        let probs = probs.map(|probs| load::<T>(probs, row_map));
        gather_in::<T>(rows, row_map, probs.as_deref())
    })
}

/// Returns the gradients of [`gather`] with probabilities, from that of the tokens, `dy`, `[tokens, H]`.
///
/// # Panics
/// Panics under the conditions of [`spread`].
pub fn gather_backward(
    dy: &View<'_>,
    rows: &View<'_>,
    row_map: RowMap<'_>,
    probs: &View<'_>,
) -> Gradients {
    with_type!(rows.dtype(), T => backward::<T>(dy, rows, row_map, probs))
}

/// Returns the probabilities of the slots in the type that kernels compute in.
///
/// # Panics
/// Panics if there are more or fewer, if they have another type than the rows or the one that is computed in, or if they are
/// not contiguous.
fn load<T: Element>(probs: &View<'_>, row_map: RowMap<'_>) -> Vec<T::Acc> {
    let probs = numbers::load::<T>(probs);
    assert!(
        probs.len() == row_map.entries.len(),
        "moe_permute: {} probabilities are not those of {} slots",
        probs.len(),
        row_map.entries.len()
    );
    probs
}

/// The rows of a contiguous matrix, read in any order.
#[derive(Clone, Copy)]
struct Matrix<'a, T> {
    values: &'a [T],
    width: usize,
}

impl<'a, T: Element> Matrix<'a, T> {
    /// Returns the rows of a tensor, and their number.
    ///
    /// # Panics
    /// Panics if it has other than two axes, or if it is not contiguous.
    fn of(tensor: &View<'a>) -> (Self, usize) {
        let &[rows, width] = tensor.sizes() else {
            panic!(
                "moe_permute: rows must have two axes, found {:?}",
                tensor.sizes()
            )
        };
        let values = tensor.contiguous();
        (Self { values, width }, rows)
    }

    /// Returns the rows of a tensor that has one for each token.
    ///
    /// # Panics
    /// Panics under the conditions of [`of`](Self::of), or if there are more or fewer rows.
    fn of_tokens(tensor: &View<'a>, row_map: RowMap<'_>) -> Self {
        let (matrix, tokens) = Self::of(tensor);
        assert!(
            tokens == row_map.tokens,
            "moe_permute: {tokens} tokens don't have the slots of {}",
            row_map.tokens
        );
        matrix
    }

    #[inline(always)]
    fn row(&self, row: usize) -> &'a [T] {
        &self.values[row * self.width..(row + 1) * self.width]
    }
}

fn spread_in<T: Element>(
    tokens: &View<'_>,
    row_map: RowMap<'_>,
    probs: Option<&[T::Acc]>,
    rows: usize,
) -> Values {
    let tokens = Matrix::<T>::of_tokens(tokens, row_map);
    let width = tokens.width;
    // First, because it refuses more rows than can be had.
    let mut y = Output::<T>::new([rows, width]);
    let kernel = Spread::<T> {
        tokens,
        slots: &invert(row_map.entries, rows),
        k: row_map.choices,
        probs,
    };
    run(&kernel, rows, width, [&mut y], &mut Output::none());
    T::values(y.into_values())
}

struct Spread<'a, T: Element> {
    tokens: Matrix<'a, T>,
    slots: &'a [Option<usize>],
    k: usize,
    probs: Option<&'a [T::Acc]>,
}

impl<T: Element> Kernel<1> for Spread<'_, T> {
    type Out = T;
    type Acc = T::Acc;
    type PerRow = ();
    type Sum = ();

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        _: C,
        range: Range<usize>,
        [mut y]: [Unwritten<'_, T>; 1],
        _: Unwritten<'_, ()>,
    ) {
        let width = self.tokens.width;
        for slot in &self.slots[range] {
            let y = y.row(width);
            let Some(slot) = *slot else {
                y.fill(T::round(T::Acc::ZERO));
                continue;
            };
            let token = self.tokens.row(slot / self.k);
            match self.probs {
                None => y.copy(token),
                Some(probs) => scale(token, probs[slot], y),
            }
        }
    }
}

#[inline(always)]
fn scale<T: Element>(row: &[T], factor: T::Acc, y: Row<'_, T>) {
    y.write(row.iter().map(|x| T::round(x.load() * factor)));
}

fn gather_in<T: Element>(rows: &View<'_>, row_map: RowMap<'_>, probs: Option<&[T::Acc]>) -> Values {
    let ((rows, count), tokens) = (Matrix::<T>::of(rows), row_map.tokens);
    let width = rows.width;
    let kernel = Gather::<T> {
        rows,
        count,
        row_map: row_map.entries,
        k: row_map.choices,
        probs,
    };
    let mut y = Output::<T>::new([tokens, width]);
    run(&kernel, tokens, width, [&mut y], &mut Output::none());
    T::values(y.into_values())
}

struct Gather<'a, T: Element> {
    rows: Matrix<'a, T>,
    count: usize,
    row_map: &'a [i64],
    k: usize,
    probs: Option<&'a [T::Acc]>,
}

impl<T: Element> Kernel<1> for Gather<'_, T> {
    type Out = T;
    type Acc = T::Acc;
    type PerRow = ();
    type Sum = ();

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        _: C,
        range: Range<usize>,
        [mut y]: [Unwritten<'_, T>; 1],
        _: Unwritten<'_, ()>,
    ) {
        let (k, width) = (self.k, self.rows.width);
        let mut sum = vec![T::Acc::ZERO; width];
        for token in range {
            sum.fill(T::Acc::ZERO);
            for slot in token * k..(token + 1) * k {
                let Some(row) = slots::row(self.row_map[slot], self.count) else {
                    continue;
                };
                let factor = self.probs.map_or(T::Acc::ONE, |probs| probs[slot]);
                for (sum, x) in sum.iter_mut().zip(self.rows.row(row)) {
                    *sum += x.load() * factor;
                }
            }
            y.row(width).write(sum.iter().map(|sum| T::round(*sum)));
        }
    }
}

fn backward<T: Element>(
    dy: &View<'_>,
    rows: &View<'_>,
    row_map: RowMap<'_>,
    probs: &View<'_>,
) -> Gradients {
    let (dy, (rows, count)) = (Matrix::<T>::of_tokens(dy, row_map), Matrix::<T>::of(rows));
    let width = rows.width;
    assert!(
        dy.width == width,
        "moe_permute: a gradient with rows of {} elements does not fit rows of {width}",
        dy.width
    );
    let kernel = Backward::<T> {
        dy,
        rows,
        slots: &invert(row_map.entries, count),
        k: row_map.choices,
        probs: &load::<T>(probs, row_map),
    };
    let mut d_rows = Output::<T>::new([count, width]);
    let mut products = Output::<T::Acc>::new([count]);
    run(&kernel, count, width, [&mut d_rows], &mut products);
    let (rows, products) = (T::values(d_rows.into_values()), products.into_values());
    let d_probs = row_map
        .entries
        .iter()
        .map(|entry| slots::row(*entry, count).map_or(T::Acc::ZERO, |row| products[row]));
    Gradients {
        rows,
        probs: numbers::store::<T>(d_probs, probs.dtype()),
    }
}

struct Backward<'a, T: Element> {
    dy: Matrix<'a, T>,
    rows: Matrix<'a, T>,
    slots: &'a [Option<usize>],
    k: usize,
    probs: &'a [T::Acc],
}

impl<T: Element> Kernel<1> for Backward<'_, T> {
    type Out = T;
    type Acc = T::Acc;
    /// The scalar product of the row and its token's gradient, which is the gradient of the probability.
    type PerRow = T::Acc;
    type Sum = ();

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        _: C,
        range: Range<usize>,
        [mut d_rows]: [Unwritten<'_, T>; 1],
        mut products: Unwritten<'_, T::Acc>,
    ) {
        let width = self.rows.width;
        for row in range {
            let d_row = d_rows.row(width);
            let Some(slot) = self.slots[row] else {
                d_row.fill(T::round(T::Acc::ZERO));
                products.push(T::Acc::ZERO);
                continue;
            };
            let dy = self.dy.row(slot / self.k);
            scale(dy, self.probs[slot], d_row);
            products.push(dot(self.rows.row(row), dy));
        }
    }
}

/// The number of independent sums, which let the compiler add with SIMD.
const LANES: usize = 32;

#[inline(always)]
fn dot<T: Element>(left: &[T], right: &[T]) -> T::Acc {
    let mut lanes = [T::Acc::ZERO; LANES];
    let (left_body, left_tail) = left.as_chunks::<LANES>();
    let (right_body, right_tail) = right.as_chunks::<LANES>();
    for (l, r) in left_body.iter().zip(right_body) {
        for i in 0..LANES {
            lanes[i] += l[i].load() * r[i].load();
        }
    }
    for ((lane, l), r) in lanes.iter_mut().zip(left_tail).zip(right_tail) {
        *lane += l.load() * r.load();
    }
    lanes.into_iter().fold(T::Acc::ZERO, |sum, lane| sum + lane)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn rows_are_those_of_the_slots() {
        let tokens = View::whole(&[1.0_f32, 2.0, 3.0, 4.0], &[2, 2]);
        let map = RowMap::new(&[2, 0, 4, 1], [2, 2]);
        let probs = View::whole(&[0.5_f32, 1.0, 7.0, 2.0], &[2, 2]);
        let rows = spread(&tokens, map, None, 4);
        let expected = [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 0.0, 0.0];
        assert_eq!(rows, Values::F32(expected.to_vec()));
        let rows = View::whole(&expected[..], &[4, 2]);
        let sums = gather(&rows, map, Some(&probs));
        assert_eq!(sums, Values::F32(vec![1.5, 3.0, 6.0, 8.0]));
        let found = gather_backward(&tokens, &rows, map, &probs);
        let d_rows = vec![1.0, 2.0, 6.0, 8.0, 0.5, 1.0, 0.0, 0.0];
        assert_eq!(found.rows, Values::F32(d_rows));
        assert_eq!(found.probs, Values::F32(vec![5.0, 5.0, 0.0, 25.0]));
    }

    #[test]
    fn tensors_that_do_not_go_together_are_refused() {
        let numbers = [1.0_f32; 8];
        let view = |sizes: &[usize]| {
            let count = sizes.iter().product();
            View::whole(&numbers[..count], sizes)
        };
        let map = RowMap::new(&[0, 1, 2, 3], [2, 2]);
        let fits = view(&[2, 2]);
        assert!(catch_unwind(|| RowMap::new(&[0, 1, 2], [2, 2])).is_err());
        for (tokens, probs) in [
            (view(&[3, 2]), None),
            (view(&[4]), None),
            (View::of(&numbers, &[2, 2], &[1, 2], 0), None),
            (fits.clone(), Some(view(&[3, 1]))),
        ] {
            let found = catch_unwind(|| spread(&tokens, map, probs.as_ref(), 4));
            assert!(found.is_err(), "{tokens:?}");
        }
        let double = [1.0_f64; 4];
        let probs = View::whole(&double, &[2, 2]);
        assert!(catch_unwind(|| gather(&fits, map, Some(&probs))).is_err());
        assert!(catch_unwind(|| gather_backward(&fits, &view(&[4, 1]), map, &fits)).is_err());
    }
}
