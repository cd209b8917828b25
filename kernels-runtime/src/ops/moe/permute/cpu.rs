//! Moving tokens to rows and back on Flex. One thread writes each row of a result, once.

use super::slots::{self, invert};
use super::{
    PermuteBackend, PermuteKernel, SortTensors, SpreadTensors, SpreadWeighed, SumTensors,
    WeighBackward, WeighTensors,
};
use crate::cpu::{
    Context, Element, Kernel, Output, Real, Row, Unwritten, contiguous, dispatch_dtype, run,
};
use crate::ops::moe::integers;
use crate::ops::operands::checked;
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use burn::tensor::TensorData;
use std::ops::Range;

/// Runs `$body` with `$T` bound to the type of the rows and `$P` to that of the probabilities.
macro_rules! dispatch_dtypes {
    ($rows:expr, $probs:expr, ($T:ident, $P:ident) => $body:expr) => {
        dispatch_dtype!($rows, $T => if $probs == $rows {
            type $P = $T;
            $body
        } else {
            type $P = <$T as Element>::Acc;
            $body
        })
    };
}

impl PermuteBackend for Flex {
    fn sort_slots(slots: SortTensors<Self>) -> (FlexTensor, FlexTensor) {
        let [tokens, k] = dims(slots.indices());
        let (experts, ints) = (slots.num_experts(), slots.integers());
        let groups = integers::sort(slots.indices(), experts);
        (
            integers::tensor(slots::row_map(&groups), [tokens, k], ints),
            integers::tensor(slots::counts(&groups, slots.rows()), [experts], ints),
        )
    }

    fn spread(operands: SpreadTensors<Self>) -> FlexTensor {
        dispatch_dtype!(checked(operands.dtype()), T => {
            spread::<T>(operands.tokens(), operands.row_map(), None, operands.rows())
        })
    }

    fn sum_rows(operands: SumTensors<Self>) -> FlexTensor {
        dispatch_dtype!(checked(operands.dtype()), T => {
            gather::<T>(operands.rows(), operands.row_map(), None)
        })
    }

    fn weigh_rows(operands: WeighTensors<Self>) -> FlexTensor {
        let (rows, probs) = (operands.rows(), operands.probs());
        dispatch_dtypes!(checked(operands.dtype()), probs.dtype(), (T, P) => {
            gather::<T>(rows, operands.row_map(), Some(&load::<P>(probs)))
        })
    }
}

impl PermuteKernel for Flex {
    fn weigh_rows_d_rows(operands: SpreadWeighed<FlexTensor, FlexTensor>) -> FlexTensor {
        let (dy, probs, rows) = (operands.dy(), operands.probs(), operands.rows());
        dispatch_dtypes!(checked(operands.dtype()), probs.dtype(), (T, P) => {
            spread::<T>(dy, operands.row_map(), Some(&load::<P>(probs)), rows)
        })
    }

    fn weigh_rows_backward(
        operands: WeighBackward<FlexTensor, FlexTensor>,
    ) -> (FlexTensor, FlexTensor) {
        let probs = operands.probs().dtype();
        dispatch_dtypes!(checked(operands.dtype()), probs, (T, P) => {
            weigh_rows_backward::<T, P>(&operands)
        })
    }
}

fn dims(tensor: &FlexTensor) -> [usize; 2] {
    let [rows, width] = *tensor.layout().shape().as_slice() else {
        unreachable!("the ranks were checked")
    };
    [rows, width]
}

/// Returns the probabilities in the type that kernels compute in.
fn load<P: Element>(probs: &FlexTensor) -> Vec<P::Acc> {
    let probs = probs.to_contiguous();
    contiguous::<P>(&probs).iter().map(|p| p.load()).collect()
}

/// The rows of a contiguous matrix, read in any order.
#[derive(Clone, Copy)]
struct Matrix<'a, T> {
    values: &'a [T],
    width: usize,
}

impl<'a, T> Matrix<'a, T> {
    #[inline(always)]
    fn row(&self, row: usize) -> &'a [T] {
        &self.values[row * self.width..(row + 1) * self.width]
    }
}

/// Copies each slot's token to its row, multiplied by the slot's probability if probabilities are given.
fn spread<T: Element>(
    tokens: &FlexTensor,
    row_map: &FlexTensor,
    probs: Option<&[T::Acc]>,
    rows: usize,
) -> FlexTensor {
    let ([_, width], [_, k]) = (dims(tokens), dims(row_map));
    let mut y = Output::<T>::new(Shape::new([rows, width]));
    if width == 0 {
        // Rows without elements take no memory, so there may be more than have a slot in an inverse.
        return y.finish();
    }
    let tokens = tokens.to_contiguous();
    let kernel = Spread::<T> {
        tokens: Matrix {
            values: contiguous(&tokens),
            width,
        },
        slots: &invert(&integers::read(row_map), rows),
        k,
        probs,
    };
    run(&kernel, rows, width, [&mut y], &mut Output::none());
    y.finish()
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

/// Sums the rows of each token's slots, multiplied by their probabilities if these are given.
fn gather<T: Element>(
    rows: &FlexTensor,
    row_map: &FlexTensor,
    probs: Option<&[T::Acc]>,
) -> FlexTensor {
    let ([count, width], [tokens, k]) = (dims(rows), dims(row_map));
    let rows = rows.to_contiguous();
    let kernel = Gather::<T> {
        rows: Matrix {
            values: contiguous(&rows),
            width,
        },
        count,
        row_map: &integers::read(row_map),
        k,
        probs,
    };
    let mut y = Output::<T>::new(Shape::new([tokens, width]));
    run(&kernel, tokens, width, [&mut y], &mut Output::none());
    y.finish()
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

fn weigh_rows_backward<T, P>(
    operands: &WeighBackward<FlexTensor, FlexTensor>,
) -> (FlexTensor, FlexTensor)
where
    T: Element,
    P: Element<Acc = T::Acc>,
{
    let (rows, row_map) = (operands.rows(), operands.row_map());
    let ([count, width], [tokens, k]) = (dims(rows), dims(row_map));
    let mut d_rows = Output::<T>::new(Shape::new([count, width]));
    if width == 0 {
        // As in `spread`.
        let zeros = vec![P::round(T::Acc::ZERO); tokens * k];
        let d_probs = FlexTensor::from_data(TensorData::new(zeros, [tokens, k]));
        return (d_rows.finish(), d_probs);
    }
    let (dy, rows) = (operands.dy().to_contiguous(), rows.to_contiguous());
    let matrix = |tensor| Matrix {
        values: contiguous::<T>(tensor),
        width,
    };
    let row_map = integers::read(row_map);
    let kernel = WeighRowsBackward::<T> {
        dy: matrix(&dy),
        rows: matrix(&rows),
        slots: &invert(&row_map, count),
        k,
        probs: &load::<P>(operands.probs()),
    };
    let mut products = Output::<T::Acc>::new(Shape::new([count]));
    run(&kernel, count, width, [&mut d_rows], &mut products);
    let (d_rows, products) = (d_rows.finish(), products.into_values());
    let d_probs = row_map.iter().map(|entry| {
        let product = slots::row(*entry, count).map_or(T::Acc::ZERO, |row| products[row]);
        P::round(product)
    });
    let d_probs = TensorData::new(d_probs.collect(), [tokens, k]);
    (d_rows, FlexTensor::from_data(d_probs))
}

struct WeighRowsBackward<'a, T: Element> {
    dy: Matrix<'a, T>,
    rows: Matrix<'a, T>,
    slots: &'a [Option<usize>],
    k: usize,
    probs: &'a [T::Acc],
}

impl<T: Element> Kernel<1> for WeighRowsBackward<'_, T> {
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
