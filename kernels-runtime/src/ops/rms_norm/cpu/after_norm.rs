//! With a gate after the norm: `y = x̂ · g · silu(z)`.

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
        let rows = self
            .x
            .range(range.clone())
            .zip(self.gate.range(range.clone()));
        for (i, (row, (x, gate))) in range.zip(rows).enumerate() {
            let r = self.axis.rstd(sum_of_squares(x, T::load));
            rstd[i].write(r);
            let gain = &self.axis.gain[self.axis.of_row(row)];
            let y = &mut y[i * width..(i + 1) * width];
            for (((y, x), z), g) in y.iter_mut().zip(x).zip(gate).zip(gain) {
                let z = z.load();
                let scaled = R::step(R::step(x.load() * r) * *g);
                y.write(T::round(scaled * (z * z.sigmoid())));
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
        // `dy · silu(z)`, which the norm's own gradients start from.
        let mut gated = vec![T::Acc::ZERO; width];
        let rows = self.dy.range(range.clone());
        let rows = rows.zip(
            self.x
                .range(range.clone())
                .zip(self.gate.range(range.clone())),
        );
        for (i, (row, (dy, (x, gate)))) in range.zip(rows).enumerate() {
            let (r, place) = (rstd[row], self.axis.of_row(row));
            let gain = &self.axis.gain[place.clone()];
            let d_gate = &mut d_gate[i * width..(i + 1) * width];
            let given = dy.iter().zip(x).zip(gate).zip(gain);
            for ((((dy, x), z), g), (d_gate, gated)) in given.zip(d_gate.iter_mut().zip(&mut gated))
            {
                let dy = dy.load();
                let (silu, slope) = z.load().silu_with_slope();
                d_gate.write(T::round(dy * (x.load() * r * *g) * slope));
                *gated = dy * silu;
            }
            let projection = sum_of(&gated, x, gain, |dy: T::Acc, x: T, g| dy * x.load() * g);
            let along = self.axis.along(projection, r);
            let dx = &mut dx[i * width..(i + 1) * width];
            for (((dy, x), g), dx) in gated.iter().zip(x).zip(gain).zip(dx) {
                dx.write(T::round(r * (*dy * *g - x.load() * along)));
            }
            if let Some(dw) = dw.get_mut(place) {
                for ((dw, dy), x) in dw.iter_mut().zip(&gated).zip(x) {
                    *dw += *dy * (x.load() * r);
                }
            }
        }
        dw
    }
}
