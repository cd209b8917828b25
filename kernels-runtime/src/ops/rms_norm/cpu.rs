//! RMSNorm on Flex: one pass over each row while it is in the first-level cache.

use super::{RmsNormBackend, RmsNormKernel};
use crate::cpu::{
    Element, Kernel, Output, Real, Rows, dispatch_dtype, run, sum_of, sum_of_squares,
};
use crate::dispatch::DeviceKind;
use crate::registry::{CapabilityRange, FloatType, Implementation, Launch};
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
    deterministic: true,
    fusion_barrier: false,
    capability: CapabilityRange::ANY,
    limits: None,
    launch: Launch::RmsNorm(launch),
    accepts: |key| {
        matches!(
            key,
            SemanticsKey::RmsNorm(RmsNormKey {
                scale: crate::semantics::Scale::Weight,
                gating: crate::semantics::Gating::None,
                groups: crate::semantics::Groups::One,
                ..
            })
        )
    },
};

fn launch(call: super::Call) -> burn::backend::DispatchTensor {
    super::launch(call.x, call.weight.expect("todo"), call.eps, call.key)
}

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
    let rows = &Rows::<T>::new(&readable);
    let mut y = Output::<T>::new(x.layout().shape().clone());
    let mut rstd = Output::<T::Acc>::new(row_shape(x));
    let (places, per_row) = ([y.places()], rstd.places());
    let (gain, eps) = (&gain[..], T::Acc::of(eps));
    match key.rounding {
        Rounding::Llama => {
            let scale = |x: T, r: T::Acc, g| T::round(T::round(x.load() * r).load() * g);
            let kernel = Forward {
                rows,
                gain,
                eps,
                scale,
            };
            run(&kernel, rows.count(), n, places, per_row);
        }
        Rounding::Gemma => {
            let scale = |x: T, r: T::Acc, g| T::round(x.load() * r * g);
            let kernel = Forward {
                rows,
                gain,
                eps,
                scale,
            };
            run(&kernel, rows.count(), n, places, per_row);
        }
    }
    // SAFETY: `Forward` writes one `rstd` and `n` elements of `y` for every row, and `run` covers
    // every row.
    unsafe { (y.finish(), rstd.finish()) }
}

struct Forward<'a, T: Element, S> {
    rows: &'a Rows<'a, T>,
    gain: &'a [T::Acc],
    eps: T::Acc,
    /// The result of an element of `x`, its row's `rstd` and its gain.
    scale: S,
}

impl<T: Element, S: Fn(T, T::Acc, T::Acc) -> T + Sync> Kernel<1> for Forward<'_, T, S> {
    type Out = T;
    type PerRow = T::Acc;
    type Sum = ();

    #[inline(always)]
    fn rows(
        &self,
        range: Range<usize>,
        [y]: [&mut [MaybeUninit<T>]; 1],
        rstd: &mut [MaybeUninit<T::Acc>],
    ) {
        let n = self.gain.len();
        let count = T::Acc::of(n as f64);
        for (i, (x, rstd)) in self.rows.range(range).zip(rstd).enumerate() {
            let mean_square = sum_of_squares(x, T::load) / count;
            let r = T::Acc::ONE / (mean_square + self.eps).sqrt();
            rstd.write(r);
            let y = &mut y[i * n..(i + 1) * n];
            for ((y, x), g) in y.iter_mut().zip(x).zip(self.gain) {
                y.write((self.scale)(*x, r, *g));
            }
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
    let kernel = Backward {
        dy: Rows::<T>::new(&dy),
        x: Rows::<T>::new(&x),
        gain: &gain,
        rstd: rstd.storage::<T::Acc>(),
        weight_gradient,
    };
    let mut dx = Output::<T>::new(x.layout().shape().clone());
    let sums = run(&kernel, kernel.x.count(), n, [dx.places()], &mut []);
    // SAFETY: `Backward` writes `n` elements of `dx` for every row, and `run` covers every row.
    let dx = unsafe { dx.finish() };
    (dx, weight_gradient.then(|| total::<T>(n, &sums)))
}

struct Backward<'a, T: Element> {
    dy: Rows<'a, T>,
    x: Rows<'a, T>,
    gain: &'a [T::Acc],
    rstd: &'a [T::Acc],
    weight_gradient: bool,
}

impl<T: Element> Kernel<1> for Backward<'_, T> {
    type Out = T;
    type PerRow = ();
    /// The range's part of the weight's gradient; empty if that is not wanted.
    type Sum = Vec<T::Acc>;

    #[inline(always)]
    fn rows(
        &self,
        range: Range<usize>,
        [dx]: [&mut [MaybeUninit<T>]; 1],
        _: &mut [MaybeUninit<()>],
    ) -> Vec<T::Acc> {
        let n = self.gain.len();
        let count = T::Acc::of(n as f64);
        let mut dw = vec![T::Acc::ZERO; if self.weight_gradient { n } else { 0 }];
        let inputs = self
            .dy
            .range(range.clone())
            .zip(self.x.range(range.clone()));
        for (i, ((dy, x), r)) in inputs.zip(&self.rstd[range]).enumerate() {
            let r = *r;
            let projection = sum_of(dy, x, self.gain, |dy: T, x: T, g| dy.load() * x.load() * g);
            // In this order `r²` alone, which may underflow, is never formed.
            let along = projection * r / count * r;
            let dx = &mut dx[i * n..(i + 1) * n];
            for (((dy, x), g), dx) in dy.iter().zip(x).zip(self.gain).zip(dx) {
                dx.write(T::round(r * (dy.load() * *g - x.load() * along)));
            }
            for ((dw, dy), x) in dw.iter_mut().zip(dy).zip(x) {
                *dw += dy.load() * (x.load() * r);
            }
        }
        dw
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
