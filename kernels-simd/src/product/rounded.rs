//! Products of tensors that are rounded once, as the layers of a model need them.

use super::dense::{add_dense, dense};
use super::gemm::{Strides, WIDE, are_many, has_tiles, places};
use super::memory::with_memory;
use super::outer::{Destination, Factors, outer, outer_of_tensors};
use super::{Gemm, Matrix, PART, Rows, few, panel, serial};
#[cfg(target_arch = "x86_64")]
use super::{
    amx,
    pairs::{self, Pairs},
};
use crate::lanes::{Rounded, Task, dispatch};
use crate::share;
use crate::{Blocks, CHUNK, Columns, Context, Element, LANES, Read, Real, Unwritten};
use std::any::TypeId;
use std::borrow::Cow;

/// The number of multiplications from which it pays to wake other threads.
const PARALLEL: usize = 1 << 20;

/// Computes `out = rows · weights + bias`, and rounds each sum once. `rows` are contiguous, and so is `out`,
/// `rows × features`.
///
/// Results don't depend on the number of threads. Where the machine multiplies pairs of bf16, subnormal numbers may count
/// as zero.
///
/// # Panics
/// Panics if the sizes don't go together.
pub fn product_rounded<T: Element>(
    rows: &[T],
    weights: Matrix<'_, T>,
    bias: Option<&[T::Acc]>,
    mut out: Unwritten<'_, T>,
) where
    T::Acc: Gemm,
{
    let Matrix {
        inputs, features, ..
    } = weights;
    if out.len() == 0 {
        return;
    }
    let count = out.len() / features.max(1);
    assert!(
        rows.len() == count * inputs && bias.is_none_or(|bias| bias.len() == features),
        "{} elements and {features} features have no product of {} elements",
        rows.len(),
        out.len()
    );
    if inputs == 0 {
        // Lines of weights without elements may be anywhere.
        return bias_alone(bias, out);
    }
    if count < few::ROWS && weights.feature_stride == 1 {
        return few_rows(rows, weights, bias, out);
    }
    if is_wide::<T>() && count >= few::ROWS {
        return wide(rows, weights, bias, out);
    }
    // Copies of the rows, and their sums, would be many times as large as rows that are short.
    for first in (0..count).step_by(ROWS) {
        let count = ROWS.min(count - first);
        let rows = &rows[first * inputs..][..count * inputs];
        some_rows(rows, weights, bias, out.part(count * features));
    }
}

/// The largest number of rows of a half type that are copied at a time.
const ROWS: usize = 1 << 16;

/// Computes as [`product_rounded`] does, with copies of all rows.
fn some_rows<T: Element>(
    rows: &[T],
    weights: Matrix<'_, T>,
    bias: Option<&[T::Acc]>,
    out: Unwritten<'_, T>,
) where
    T::Acc: Gemm,
{
    let Matrix {
        inputs, features, ..
    } = weights;
    let count = out.len() / features;
    let parallel = count.saturating_mul(inputs * features) >= PARALLEL;
    #[cfg(target_arch = "x86_64")]
    if pairs::available::<T>() && amx::takes_tensors(count, [count, inputs, features]) {
        return amx::product_rounded(rows, weights, bias, out, parallel);
    }
    let rows = Operand::new(rows, count, weights);
    let width = rows.columns(weights);
    in_columns(out, features, width, parallel, |mut part| {
        let weights = weights.features(part.start(), 1, part.width());
        with_memory(count * part.width(), |sums| {
            rows.multiply(weights, sums);
            finish(sums, bias, &mut part);
        });
    });
}

/// Writes rows of products without terms: the bias, or zeros.
fn bias_alone<T: Element>(bias: Option<&[T::Acc]>, mut out: Unwritten<'_, T>) {
    let Some(bias) = bias else {
        out.filled(T::round(<T::Acc as Real>::ZERO));
        return;
    };
    while out.len() > 0 {
        let _ = out
            .row(bias.len())
            .write(bias.iter().map(|value| T::round(*value)));
    }
}

/// Computes `out += rows · weights`, for rows and `out` as [`product_rounded`] takes them. Returns false, and computes nothing,
/// for types that are rounded and for few rows.
///
/// # Panics
/// Panics if the sizes don't go together.
pub fn add_product<T: Element>(rows: &[T], weights: Matrix<'_, T>, out: &mut [T]) -> bool {
    let Matrix {
        inputs, features, ..
    } = weights;
    let count = out.len() / features.max(1);
    if !is_wide::<T>() || count < few::ROWS {
        return false;
    }
    assert!(
        rows.len() == count * inputs,
        "{} elements are not {count} rows of {inputs}",
        rows.len()
    );
    let (along, strides) = strides(weights);
    let sizes = [count, inputs, features];
    add_dense(sizes, (rows, along), (weights.data, strides), out);
    true
}

/// Returns the strides of contiguous rows and of their weights.
fn strides<T>(weights: Matrix<'_, T>) -> (Strides, Strides) {
    let rows = Strides {
        row: weights.inputs,
        column: 1,
    };
    let weights = Strides {
        row: weights.input_stride,
        column: weights.feature_stride,
    };
    (rows, weights)
}

/// Computes as [`product_rounded`] does. Every weight is read once, in order.
fn few_rows<T: Element>(
    rows: &[T],
    weights: Matrix<'_, T>,
    bias: Option<&[T::Acc]>,
    out: Unwritten<'_, T>,
) where
    T::Acc: Gemm,
{
    let Matrix {
        inputs, features, ..
    } = weights;
    let count = out.len() / features;
    let rows = panel::load(rows);
    let parts = few::Parts::of(weights);
    let along = inputs.div_ceil(parts.inputs).max(1);
    with_memory(along * count * features, |sums| {
        let mut tasks = Vec::with_capacity(along * features.div_ceil(parts.features));
        let mut rest = &mut *sums;
        for start in (0..features).step_by(parts.features) {
            let width = parts.features.min(features - start);
            for first in (0..along).map(|part| part * parts.inputs) {
                let some = weights.features(start, 1, width);
                let some = some.inputs(first, parts.inputs.min(inputs - first));
                let (sums, others) = rest.split_at_mut(count * width);
                tasks.push((first, some, sums));
                rest = others;
            }
        }
        let work = |(first, weights, sums): (usize, Matrix<'_, T>, &mut [T::Acc])| {
            sums.fill(<T::Acc as Gemm>::ZERO);
            few::add_products((&rows[first.min(rows.len())..], inputs), weights, sums);
        };
        if tasks.len() > 1 {
            share::each(tasks, work);
        } else {
            tasks.into_iter().for_each(work);
        }
        let mut rest = sums;
        for mut part in out.columns(features, parts.features) {
            let each = count * part.width();
            let (sums, others) = rest.split_at_mut(along * each);
            finish(few::total(sums, each), bias, &mut part);
            rest = others;
        }
    });
}

/// Runs `work` on each part of some columns.
pub fn in_columns<T: Copy + Send>(
    out: Unwritten<'_, T>,
    length: usize,
    width: usize,
    parallel: bool,
    work: impl Fn(Columns<'_, T>) + Send + Sync,
) {
    let parts = out.columns(length, width);
    match parallel {
        true => share::each(parts, work),
        false => parts.into_iter().for_each(work),
    }
}

/// Returns true if `T` is the type that is computed in.
fn is_wide<T: Element>() -> bool {
    TypeId::of::<T>() == TypeId::of::<T::Acc>()
}

/// Computes as [`product_rounded`] does, in a type that is not rounded.
fn wide<T: Element>(
    rows: &[T],
    weights: Matrix<'_, T>,
    bias: Option<&[T::Acc]>,
    out: Unwritten<'_, T>,
) {
    let Matrix {
        inputs, features, ..
    } = weights;
    let (along, strides) = strides(weights);
    let sizes = [out.len() / features, inputs, features];
    let values = dense(sizes, (rows, along), (weights.data, strides), out);
    let Some(bias) = bias else { return };
    let chunk = (CHUNK / features).max(1) * features;
    share::each_of_many(values.chunks_mut(chunk).collect(), |values: &mut [T]| {
        for row in values.chunks_exact_mut(features) {
            for (value, bias) in row.iter_mut().zip(bias) {
                *value = T::round(value.load() + *bias);
            }
        }
    });
}

/// Rows as their product reads them.
enum Operand<'a, T: Element> {
    /// Pairs of bf16, in place.
    #[cfg(target_arch = "x86_64")]
    Pairs(Pairs<'a>),
    Loaded(Loaded<'a, T>),
}

/// Rows in the type that is computed in, a copy for half types.
struct Loaded<'a, T: Element> {
    values: Cow<'a, [T::Acc]>,
    count: usize,
    inputs: usize,
}

impl<'a, T: Element> Operand<'a, T>
where
    T::Acc: Gemm,
{
    fn new(rows: &'a [T], count: usize, weights: Matrix<'_, T>) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(pairs) = Pairs::in_place(rows, count, weights) {
            return Self::Pairs(pairs);
        }
        Self::Loaded(Loaded {
            values: panel::load(rows),
            count,
            inputs: weights.inputs,
        })
    }

    /// Returns the number of columns of the product that are computed at once.
    fn columns(&self, weights: Matrix<'_, T>) -> usize {
        match self {
            Self::Loaded(rows) if are_many(rows.count, weights) && !has_tiles() => WIDE,
            _ => PART,
        }
    }

    /// Computes the product with some weights.
    fn multiply(&self, weights: Matrix<'_, T>, sums: &mut [T::Acc]) {
        let width = weights.features;
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Pairs(rows) => {
                let sums = T::Acc::as_f32_mut(sums).expect("bf16 is summed in f32");
                let done = pairs::multiply(rows, weights, sums, width, false);
                assert!(
                    done,
                    "`in_place` asked whether the weights have whole pairs"
                );
            }
            Self::Loaded(rows) => {
                let rows = Rows::new(&rows.values, rows.count, rows.inputs);
                serial(&rows, weights, sums, width, false);
            }
        }
    }
}

/// Adds the bias to sums and rounds them into their columns.
pub fn finish<T: Element>(sums: &[T::Acc], bias: Option<&[T::Acc]>, part: &mut Columns<'_, T>)
where
    T::Acc: Gemm,
{
    let (start, width) = (part.start(), part.width());
    dispatch(Finish {
        sums,
        bias: bias.map(|bias| &bias[start..][..width]),
        part,
    });
}

struct Finish<'a, 'p, T: Element> {
    sums: &'a [T::Acc],
    bias: Option<&'a [T::Acc]>,
    part: &'a mut Columns<'p, T>,
}

impl<T: Element> Task for Finish<'_, '_, T>
where
    T::Acc: Element<Acc = T::Acc>,
{
    type Acc = T::Acc;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let width = self.part.width();
        for sums in self.sums.chunks_exact(width) {
            let Some(row) = self.part.row() else { return };
            match self.bias {
                None => row.write_blocks(&Rounded { c, values: sums }),
                Some(bias) => row.write_blocks(&Biased { c, sums, bias }),
            };
        }
    }
}

struct Biased<'a, A, C> {
    c: C,
    sums: &'a [A],
    bias: &'a [A],
}

impl<T: Element, C: Context> Blocks<T> for Biased<'_, T::Acc, C> {
    #[inline(always)]
    fn at<R: Read>(&self, at: usize) -> [T; LANES] {
        let sums = crate::block::<C, T::Acc, R>(self.c, self.sums, at);
        let bias = crate::block::<C, T::Acc, R>(self.c, self.bias, at);
        T::rounded(self.c, sums + bias)
    }
}

/// Computes `out[l, j] = Σ_r left[r, l] · right[r, j]` over `count` rows, and rounds each sum once. Each matrix has the
/// width of its rows.
///
/// Results don't depend on the number of threads.
///
/// # Panics
/// Panics if the sizes don't go together.
pub fn columns_times<T: Element>(
    count: usize,
    left: (&[T], usize),
    right: (&[T], usize),
    out: Unwritten<'_, T>,
) where
    T::Acc: Gemm,
{
    let ((left, lines), (right, length)) = (left, right);
    assert!(
        left.len() == count * lines && right.len() == count * length && out.len() == lines * length,
        "{} and {} elements are not {count} rows for a product of {} elements",
        left.len(),
        right.len(),
        out.len()
    );
    if count == 0 || out.len() == 0 {
        out.filled(T::round(<T::Acc as Real>::ZERO));
        return;
    }
    if is_wide::<T>() {
        let across = Strides {
            row: 1,
            column: lines,
        };
        let along = Strides {
            row: length,
            column: 1,
        };
        dense([lines, count, length], (left, across), (right, along), out);
        return;
    }
    let spread = count.saturating_mul(lines * length) >= PARALLEL;
    if count > ROWS && lines.min(length) < NARROW {
        return by_rows((left, lines), (right, length), out, spread);
    }
    #[cfg(target_arch = "x86_64")]
    if pairs::available::<T>() && amx::takes_tensors(count, [lines, count, length]) {
        return amx::columns_times(count, (left, lines), (right, length), out, spread);
    }
    outer_of_tensors(count, (left, lines), (right, length), out, spread);
}

/// The width from which matrices are not many times as large in the order in which products read them.
const NARROW: usize = 32;

/// Computes as [`columns_times`] does, with copies of some rows at a time.
fn by_rows<T: Element>(
    (left, lines): (&[T], usize),
    (right, length): (&[T], usize),
    mut out: Unwritten<'_, T>,
    spread: bool,
) where
    T::Acc: Gemm,
{
    let mut sums = vec![<T::Acc as Gemm>::ZERO; lines * length];
    let rows = left.chunks(ROWS * lines).zip(right.chunks(ROWS * length));
    for (left, right) in rows {
        let (left, right) = (panel::load(left), panel::load(right));
        let factors = Factors {
            count: left.len() / lines,
            left: (&left, lines),
            right: (&right, length),
        };
        let to = Destination {
            data: places(&mut sums),
            line_stride: length,
            stride: 1,
        };
        // SAFETY: the sums are initialised.
        unsafe { outer::<T>(&factors, to, true, spread) };
    }
    let rounded = sums.iter().map(|sum| T::round(*sum));
    out.row(sums.len()).write(rounded);
}
