//! RMSNorm on Flex: one pass over each row while it is in the first-level cache.

use super::{RmsNormBackend, RmsNormKernel};
use crate::cpu::{Element, Output, Real, Rows, dispatch_dtype, run, sum_of, sum_of_squares};
use crate::dispatch::DeviceKind;
use crate::registry::{FloatType, Implementation};
use crate::semantics::{RmsNormKey, Rounding, SemanticsKey};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use std::mem::MaybeUninit;
use std::ops::Range;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    device: DeviceKind::Cpu,
    name: "cpu-simd",
    dtypes: &FloatType::ALL,
    gradient: true,
    accepts: |key| matches!(key, SemanticsKey::RmsNorm(_)),
};

impl RmsNormBackend for Flex {
    fn rms_norm(x: FlexTensor, weight: FlexTensor, eps: f64, key: RmsNormKey) -> FlexTensor {
        Self::rms_norm_forward(x, weight, eps, key).0
    }
}

impl RmsNormKernel for Flex {
    fn rms_norm_forward(
        x: FlexTensor,
        weight: FlexTensor,
        eps: f64,
        key: RmsNormKey,
    ) -> (FlexTensor, FlexTensor) {
        dispatch_dtype!(x.dtype(), T => forward::<T>(&x, &weight, eps, key))
    }

    fn rms_norm_backward(
        dy: FlexTensor,
        x: FlexTensor,
        weight: FlexTensor,
        rstd: FlexTensor,
        key: RmsNormKey,
        weight_gradient: bool,
    ) -> (FlexTensor, Option<FlexTensor>) {
        dispatch_dtype!(
            x.dtype(),
            T => backward::<T>(&dy, &x, &weight, &rstd, key, weight_gradient)
        )
    }
}

/// `offset + w` in the accumulation precision.
fn gain<T: Element>(weight: &FlexTensor, key: RmsNormKey) -> Vec<T::Acc> {
    let offset = T::Acc::of(key.offset.value());
    let weight = weight.to_contiguous();
    let weight = weight.storage::<T>();
    weight.iter().map(|w| offset + w.load()).collect()
}

/// The shape of one value a row: the last axis is 1.
fn row_shape(x: &FlexTensor) -> Shape {
    let mut shape = x.layout().shape().clone();
    if let Some(last) = shape.as_mut_slice().last_mut() {
        *last = 1;
    }
    shape
}

fn forward<T: Element>(
    x: &FlexTensor,
    weight: &FlexTensor,
    eps: f64,
    key: RmsNormKey,
) -> (FlexTensor, FlexTensor) {
    let gain = gain::<T>(weight, key);
    let n = gain.len();
    let readable = Rows::<T>::readable(x);
    let rows = Rows::<T>::new(&readable);
    let mut y = Output::<T>::new(x.layout().shape().clone());
    let mut rstd = Output::<T::Acc>::new(row_shape(x));
    let eps = T::Acc::of(eps);

    run(
        rows.count(),
        n,
        [(y.places(), n)],
        rstd.places(),
        |range, [y], rstd| match key.rounding {
            Rounding::Llama => {
                let scale = |x: T, r: T::Acc, g| T::round(T::round(x.load() * r).load() * g);
                forward_rows(&rows, range, &gain, eps, y, rstd, scale);
            }
            Rounding::Gemma => {
                let scale = |x: T, r: T::Acc, g| T::round(x.load() * r * g);
                forward_rows(&rows, range, &gain, eps, y, rstd, scale);
            }
        },
    );
    // SAFETY: `forward_rows` writes one `rstd` and `n` elements of `y` for every row, and `run`
    // covers every row.
    unsafe { (y.finish(), rstd.finish()) }
}

#[inline(always)]
fn forward_rows<T: Element>(
    rows: &Rows<'_, T>,
    range: Range<usize>,
    gain: &[T::Acc],
    eps: T::Acc,
    y: &mut [MaybeUninit<T>],
    rstd: &mut [MaybeUninit<T::Acc>],
    scale: impl Fn(T, T::Acc, T::Acc) -> T,
) {
    let n = gain.len();
    let count = T::Acc::of(n as f64);
    for (i, (x, rstd)) in rows.range(range).zip(rstd).enumerate() {
        let mean_square = sum_of_squares(x, T::load) / count;
        let r = T::Acc::ONE / (mean_square + eps).sqrt();
        rstd.write(r);
        let y = &mut y[i * n..(i + 1) * n];
        for ((y, x), g) in y.iter_mut().zip(x).zip(gain) {
            y.write(scale(*x, r, *g));
        }
    }
}

fn backward<T: Element>(
    dy: &FlexTensor,
    x: &FlexTensor,
    weight: &FlexTensor,
    rstd: &FlexTensor,
    key: RmsNormKey,
    weight_gradient: bool,
) -> (FlexTensor, Option<FlexTensor>) {
    let gain = gain::<T>(weight, key);
    let n = gain.len();
    let (dy, x) = (Rows::<T>::readable(dy), Rows::<T>::readable(x));
    let (dy_rows, x_rows) = (Rows::<T>::new(&dy), Rows::<T>::new(&x));
    let rstd = rstd.storage::<T::Acc>();
    let mut dx = Output::<T>::new(x.layout().shape().clone());

    let sums = run(
        x_rows.count(),
        n,
        [(dx.places(), n)],
        &mut [] as &mut [MaybeUninit<()>],
        |range, [dx], _| {
            let rows = dy_rows
                .range(range.clone())
                .zip(x_rows.range(range.clone()))
                .zip(&rstd[range]);
            if weight_gradient {
                let mut dw = vec![T::Acc::ZERO; n];
                let add = |dw: &mut T::Acc, dy: T::Acc, x_hat: T::Acc| *dw += dy * x_hat;
                backward_rows(rows, &gain, dx, &mut dw, add);
                dw
            } else {
                // Without a weight gradient the sums are not read.
                let mut unused = vec![(); n];
                backward_rows(rows, &gain, dx, &mut unused, |(), _, _| ());
                Vec::new()
            }
        },
    );
    // SAFETY: `backward_rows` writes `n` elements of `dx` for every row, and `run` covers every
    // row.
    let dx = unsafe { dx.finish() };
    (dx, weight_gradient.then(|| total::<T>(n, &sums)))
}

#[inline(always)]
fn backward_rows<'a, T: Element, S>(
    rows: impl Iterator<Item = ((&'a [T], &'a [T]), &'a T::Acc)>,
    gain: &[T::Acc],
    dx: &mut [MaybeUninit<T>],
    dw: &mut [S],
    add: impl Fn(&mut S, T::Acc, T::Acc),
) {
    let n = gain.len();
    let count = T::Acc::of(n as f64);
    for (i, ((dy, x), rstd)) in rows.enumerate() {
        let r = *rstd;
        let projection = sum_of(dy, x, gain, |dy: T, x: T, g| dy.load() * x.load() * g);
        // In this order `r²` alone, which may underflow, is never formed.
        let along = projection * r / count * r;
        let dx = &mut dx[i * n..(i + 1) * n];
        let elements = dy.iter().zip(x).zip(gain).zip(dx).zip(dw.iter_mut());
        for ((((dy, x), g), dx), dw) in elements {
            let (dy, x) = (dy.load(), x.load());
            dx.write(T::round(r * (dy * *g - x * along)));
            add(dw, dy, x * r);
        }
    }
}

/// The sum of the chunks' weight gradients, in their order.
fn total<T: Element>(n: usize, chunks: &[Vec<T::Acc>]) -> FlexTensor {
    let mut sum = vec![T::Acc::ZERO; n];
    for chunk in chunks {
        for (sum, part) in sum.iter_mut().zip(chunk) {
            *sum += *part;
        }
    }
    let mut dw = Output::<T>::new(Shape::new([n]));
    for (place, value) in dw.places().iter_mut().zip(&sum) {
        place.write(T::round(*value));
    }
    // SAFETY: `sum` has `n` elements, as the output has places.
    unsafe { dw.finish() }
}
