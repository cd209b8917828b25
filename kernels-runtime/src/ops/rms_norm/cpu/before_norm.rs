//! With a gate before the norm: `y = v̂ · g`, `v = x · silu(z)`.

use super::{Axis, BackwardInputs, Steps};
use crate::cpu::{Element, Kernel, Output, Real, Rows, run, sum_of, sum_of_squares};
use crate::ops::rms_norm::autodiff::TensorGradients;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

pub(super) fn forward<T: Element, R: Steps<T>>(
    x: &FlexTensor,
    gate: &FlexTensor,
    axis: &Axis<T>,
) -> (FlexTensor, FlexTensor) {
    let mut y = Output::<T>::new(x.layout().shape().clone());
    let mut rstd = Output::<T::Acc>::new(axis.per_row(x));
    let (x, gate) = (Rows::<T>::readable(x), Rows::<T>::readable(gate));
    let kernel = Forward::<T, R> {
        x: axis.rows(&x),
        gate: axis.rows(&gate),
        axis,
        steps: PhantomData,
    };
    let count = kernel.x.count();
    run(&kernel, count, axis.width, [y.places()], rstd.places());
    // SAFETY: `Forward` writes one `rstd` and `width` elements of `y` for every row, and `run`
    // covers every row.
    unsafe { (y.finish(), rstd.finish()) }
}

struct Forward<'a, T: Element, R> {
    x: Rows<'a, T>,
    gate: Rows<'a, T>,
    axis: &'a Axis<T>,
    steps: PhantomData<R>,
}

impl<T: Element, R: Steps<T>> Kernel<1> for Forward<'_, T, R> {
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
        let width = self.axis.width;
        let mut gated = vec![T::Acc::ZERO; width];
        let rows = self
            .x
            .range(range.clone())
            .zip(self.gate.range(range.clone()));
        for (i, (row, (x, gate))) in range.zip(rows).enumerate() {
            for ((v, x), z) in gated.iter_mut().zip(x).zip(gate) {
                let z = z.load();
                *v = x.load() * (z * z.sigmoid());
            }
            let r = self.axis.rstd(sum_of_squares(&gated, |v| v));
            rstd[i].write(r);
            let gain = &self.axis.gain[self.axis.of_row(row)];
            let y = &mut y[i * width..(i + 1) * width];
            for ((y, v), g) in y.iter_mut().zip(&gated).zip(gain) {
                y.write(T::round(R::step(*v * r) * *g));
            }
        }
    }
}

pub(super) fn backward<T: Element>(
    inputs: &BackwardInputs,
    axis: &Axis<T>,
) -> TensorGradients<Flex> {
    let x = &inputs.tensors.x;
    let mut dx = Output::<T>::new(x.layout().shape().clone());
    let mut d_gate = Output::<T>::new(x.layout().shape().clone());
    let (dy, x) = (Rows::<T>::readable(&inputs.dy), Rows::<T>::readable(x));
    let gate = Rows::<T>::readable(inputs.gate());
    let kernel = Backward {
        dy: axis.rows(&dy),
        x: axis.rows(&x),
        gate: axis.rows(&gate),
        inputs,
        axis,
    };
    let (count, places) = (kernel.x.count(), [dx.places(), d_gate.places()]);
    let sums = run(&kernel, count, axis.width, places, &mut []);
    // SAFETY: `Backward` writes `width` elements of each for every row, and `run` covers every row.
    let (dx, d_gate) = unsafe { (dx.finish(), d_gate.finish()) };
    TensorGradients {
        x: dx,
        weight: inputs.total(axis, &sums),
        gate: Some(d_gate),
    }
}

struct Backward<'a, T: Element> {
    dy: Rows<'a, T>,
    x: Rows<'a, T>,
    gate: Rows<'a, T>,
    inputs: &'a BackwardInputs,
    axis: &'a Axis<T>,
}

impl<T: Element> Kernel<2> for Backward<'_, T> {
    type Out = T;
    type PerRow = ();
    /// The range's part of the weight's gradient.
    type Sum = Vec<T::Acc>;

    #[inline(always)]
    fn rows(
        &self,
        range: Range<usize>,
        [dx, d_gate]: [&mut [MaybeUninit<T>]; 2],
        _: &mut [MaybeUninit<()>],
    ) -> Vec<T::Acc> {
        let width = self.axis.width;
        let rstd = self.inputs.rstd.storage::<T::Acc>();
        let mut dw = self.inputs.partial(self.axis);
        // A row's silu(z) and its slope, so that its exponentials are taken once, and its v.
        let [mut silus, mut slopes, mut gated] = [(); 3].map(|()| vec![T::Acc::ZERO; width]);
        let rows = self.dy.range(range.clone());
        let rows = rows.zip(
            self.x
                .range(range.clone())
                .zip(self.gate.range(range.clone())),
        );
        for (i, (row, (dy, (x, gate)))) in range.zip(rows).enumerate() {
            let (r, place) = (rstd[row], self.axis.of_row(row));
            let gain = &self.axis.gain[place.clone()];
            let scratch = gated.iter_mut().zip(&mut silus).zip(&mut slopes);
            for (((v, silu), slope), (x, z)) in scratch.zip(x.iter().zip(gate)) {
                (*silu, *slope) = z.load().silu_with_slope();
                *v = x.load() * *silu;
            }
            let projection = sum_of(dy, &gated, gain, |dy: T, v: T::Acc, g| dy.load() * v * g);
            let along = self.axis.along(projection, r);
            let norm = dy.iter().zip(&gated).zip(gain);
            let gates = x.iter().zip(&silus).zip(&slopes);
            let row = i * width..(i + 1) * width;
            let results = dx[row.clone()].iter_mut().zip(&mut d_gate[row]);
            for ((((dy, v), g), ((x, silu), slope)), (dx, d_gate)) in norm.zip(gates).zip(results) {
                let dv = r * (dy.load() * *g - *v * along);
                dx.write(T::round(dv * *silu));
                d_gate.write(T::round(dv * x.load() * *slope));
            }
            if let Some(dw) = dw.get_mut(place) {
                for ((dw, dy), v) in dw.iter_mut().zip(dy).zip(&gated) {
                    *dw += dy.load() * (*v * r);
                }
            }
        }
        dw
    }
}
