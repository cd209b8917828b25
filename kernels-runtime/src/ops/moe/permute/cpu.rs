//! Moving tokens to rows and back on Flex: every row of a result is written once, by one thread.

use super::slots::{self, invert};
use super::{PermuteBackend, PermuteKernel};
use crate::cpu::{Element, Kernel, Output, Real, dispatch_dtype, run};
use crate::ops::moe::integers;
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use burn::tensor::{IntDType, TensorData};
use std::mem::MaybeUninit;
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
    fn sort_slots(
        indices: FlexTensor,
        num_experts: usize,
        rows: usize,
        ints: IntDType,
    ) -> (FlexTensor, FlexTensor) {
        let [tokens, k] = dims(&indices);
        let groups = integers::sort(&indices, num_experts);
        (
            integers::tensor(slots::row_map(&groups), [tokens, k], ints),
            integers::tensor(slots::counts(&groups, rows), [num_experts], ints),
        )
    }

    fn spread(tokens: FlexTensor, row_map: FlexTensor, rows: usize) -> FlexTensor {
        dispatch_dtype!(tokens.dtype(), T => spread::<T>(&tokens, &row_map, None, rows))
    }

    fn sum_rows(rows: FlexTensor, row_map: FlexTensor) -> FlexTensor {
        dispatch_dtype!(rows.dtype(), T => gather::<T>(&rows, &row_map, None))
    }

    fn weigh_rows(rows: FlexTensor, row_map: FlexTensor, probs: FlexTensor) -> FlexTensor {
        dispatch_dtypes!(rows.dtype(), probs.dtype(), (T, P) => {
            gather::<T>(&rows, &row_map, Some(&load::<P>(&probs)))
        })
    }
}

impl PermuteKernel for Flex {
    fn weigh_rows_d_rows(
        dy: FlexTensor,
        row_map: FlexTensor,
        probs: FlexTensor,
        rows: usize,
    ) -> FlexTensor {
        dispatch_dtypes!(dy.dtype(), probs.dtype(), (T, P) => {
            spread::<T>(&dy, &row_map, Some(&load::<P>(&probs)), rows)
        })
    }

    fn weigh_rows_backward(
        dy: FlexTensor,
        rows: FlexTensor,
        row_map: FlexTensor,
        probs: FlexTensor,
    ) -> (FlexTensor, FlexTensor) {
        dispatch_dtypes!(dy.dtype(), probs.dtype(), (T, P) => {
            weigh_rows_backward::<T, P>(&dy, &rows, &row_map, &probs)
        })
    }
}

fn dims(tensor: &FlexTensor) -> [usize; 2] {
    let [rows, width] = *tensor.layout().shape().as_slice() else {
        unreachable!("the ranks were checked")
    };
    [rows, width]
}

/// Probabilities in what kernels compute in.
fn load<P: Element>(probs: &FlexTensor) -> Vec<P::Acc> {
    let probs = probs.to_contiguous();
    probs.storage::<P>().iter().map(|p| p.load()).collect()
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

/// Each row is its slot's token, times the slot's probability if there are some.
fn spread<T: Element>(
    tokens: &FlexTensor,
    row_map: &FlexTensor,
    probs: Option<&[T::Acc]>,
    rows: usize,
) -> FlexTensor {
    let ([_, width], [_, k]) = (dims(tokens), dims(row_map));
    let tokens = tokens.to_contiguous();
    let kernel = Spread::<T> {
        tokens: Matrix {
            values: tokens.storage(),
            width,
        },
        slots: &invert(&integers::read(row_map), rows),
        k,
        probs,
    };
    let mut y = Output::<T>::new(Shape::new([rows, width]));
    run(&kernel, rows, width, [y.places()], &mut []);
    // SAFETY: `Spread` writes `width` elements for every row, and `run` covers every row.
    unsafe { y.finish() }
}

struct Spread<'a, T: Element> {
    tokens: Matrix<'a, T>,
    slots: &'a [Option<usize>],
    k: usize,
    probs: Option<&'a [T::Acc]>,
}

impl<T: Element> Kernel<1> for Spread<'_, T> {
    type Out = T;
    type PerRow = ();
    type Sum = ();

    #[inline(always)]
    fn rows(
        &self,
        range: Range<usize>,
        [y]: [&mut [MaybeUninit<T>]; 1],
        _: &mut [MaybeUninit<()>],
    ) {
        let width = self.tokens.width;
        for (i, slot) in self.slots[range].iter().enumerate() {
            let y = &mut y[i * width..(i + 1) * width];
            let Some(slot) = *slot else {
                y.fill(MaybeUninit::new(T::round(T::Acc::ZERO)));
                continue;
            };
            let token = self.tokens.row(slot / self.k);
            match self.probs {
                None => {
                    y.write_copy_of_slice(token);
                }
                Some(probs) => scale(token, probs[slot], y),
            }
        }
    }
}

#[inline(always)]
fn scale<T: Element>(row: &[T], factor: T::Acc, y: &mut [MaybeUninit<T>]) {
    for (y, x) in y.iter_mut().zip(row) {
        y.write(T::round(x.load() * factor));
    }
}

/// Each token is the sum of its slots' rows, times their probabilities if there are some.
fn gather<T: Element>(
    rows: &FlexTensor,
    row_map: &FlexTensor,
    probs: Option<&[T::Acc]>,
) -> FlexTensor {
    let ([count, width], [tokens, k]) = (dims(rows), dims(row_map));
    let rows = rows.to_contiguous();
    let kernel = Gather::<T> {
        rows: Matrix {
            values: rows.storage(),
            width,
        },
        count,
        row_map: &integers::read(row_map),
        k,
        probs,
    };
    let mut y = Output::<T>::new(Shape::new([tokens, width]));
    run(&kernel, tokens, width, [y.places()], &mut []);
    // SAFETY: `Gather` writes `width` elements for every token, and `run` covers every token.
    unsafe { y.finish() }
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
    type PerRow = ();
    type Sum = ();

    #[inline(always)]
    fn rows(
        &self,
        range: Range<usize>,
        [y]: [&mut [MaybeUninit<T>]; 1],
        _: &mut [MaybeUninit<()>],
    ) {
        let (k, width) = (self.k, self.rows.width);
        let mut sum = vec![T::Acc::ZERO; width];
        for (i, token) in range.enumerate() {
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
            let y = &mut y[i * width..(i + 1) * width];
            for (y, sum) in y.iter_mut().zip(&sum) {
                y.write(T::round(*sum));
            }
        }
    }
}

fn weigh_rows_backward<T, P>(
    dy: &FlexTensor,
    rows: &FlexTensor,
    row_map: &FlexTensor,
    probs: &FlexTensor,
) -> (FlexTensor, FlexTensor)
where
    T: Element,
    P: Element<Acc = T::Acc>,
{
    let ([count, width], [tokens, k]) = (dims(rows), dims(row_map));
    let (dy, rows) = (dy.to_contiguous(), rows.to_contiguous());
    let matrix = |tensor| Matrix {
        values: FlexTensor::storage::<T>(tensor),
        width,
    };
    let row_map = integers::read(row_map);
    let kernel = WeighRowsBackward::<T> {
        dy: matrix(&dy),
        rows: matrix(&rows),
        slots: &invert(&row_map, count),
        k,
        probs: &load::<P>(probs),
    };
    let mut d_rows = Output::<T>::new(Shape::new([count, width]));
    let mut products = Output::<T::Acc>::new(Shape::new([count, 1]));
    let places = ([d_rows.places()], products.places());
    run(&kernel, count, width, places.0, places.1);
    // SAFETY: `WeighRowsBackward` writes `width` elements of `d_rows` and one product for every
    // row, and `run` covers every row.
    let (d_rows, products) = unsafe { (d_rows.finish(), products.finish()) };
    let products = products.storage::<T::Acc>();
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
    /// The scalar product of the row and its token's gradient: the gradient of the probability.
    type PerRow = T::Acc;
    type Sum = ();

    #[inline(always)]
    fn rows(
        &self,
        range: Range<usize>,
        [d_rows]: [&mut [MaybeUninit<T>]; 1],
        products: &mut [MaybeUninit<T::Acc>],
    ) {
        let width = self.rows.width;
        for (i, (row, product)) in range.zip(products).enumerate() {
            let d_row = &mut d_rows[i * width..(i + 1) * width];
            let Some(slot) = self.slots[row] else {
                d_row.fill(MaybeUninit::new(T::round(T::Acc::ZERO)));
                product.write(T::Acc::ZERO);
                continue;
            };
            let dy = self.dy.row(slot / self.k);
            scale(dy, self.probs[slot], d_row);
            product.write(dot(self.rows.row(row), dy));
        }
    }
}

/// Independent sums, so that the compiler may add in SIMD.
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
