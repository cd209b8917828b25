//! With a gate before the norm: `y = v̂ · g`, `v = x · silu(z)`.

use super::{Axis, Given, Steps};
use crate::cpu::{Element, Kernel, Output, Real, Rows, Unwritten, run, sum_of, sum_of_squares};
use crate::ops::rms_norm::autodiff::Gradients;
use burn::backend::flex::FlexTensor;
use std::marker::PhantomData;
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
    run(&kernel, count, axis.width, [&mut y], &mut rstd);
    (y.finish(), rstd.finish())
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
        [mut y]: [Unwritten<'_, T>; 1],
        mut rstd: Unwritten<'_, T::Acc>,
    ) {
        let width = self.axis.width;
        let mut gated = vec![T::Acc::ZERO; width];
        let rows = self
            .x
            .range(range.clone())
            .zip(self.gate.range(range.clone()));
        for (row, (x, gate)) in range.zip(rows) {
            for ((v, x), z) in gated.iter_mut().zip(x).zip(gate) {
                let z = z.load();
                *v = x.load() * (z * z.sigmoid());
            }
            let r = self.axis.rstd(sum_of_squares(&gated, |v| v));
            rstd.push(r);
            let scaled = gated.iter().zip(&self.axis.gain[self.axis.of_row(row)]);
            let scaled = scaled.map(|(v, g)| T::round(R::step(*v * r) * *g));
            y.row(width).write(scaled);
        }
    }
}

pub(super) fn backward<T: Element>(
    inputs: &Given<'_, T>,
    gate: &FlexTensor,
    axis: &Axis<T>,
) -> Gradients<FlexTensor> {
    let x = inputs.x();
    let mut dx = Output::<T>::new(x.layout().shape().clone());
    let mut d_gate = Output::<T>::new(x.layout().shape().clone());
    let (dy, x) = (
        Rows::<T>::readable(inputs.backward.dy()),
        Rows::<T>::readable(x),
    );
    let gate = Rows::<T>::readable(gate);
    let kernel = Backward {
        dy: axis.rows(&dy),
        x: axis.rows(&x),
        gate: axis.rows(&gate),
        inputs,
        axis,
    };
    let (count, outputs) = (kernel.x.count(), [&mut dx, &mut d_gate]);
    let sums = run(&kernel, count, axis.width, outputs, &mut Output::none());
    Gradients {
        x: dx.finish(),
        weight: inputs.total(axis, &sums),
        gate: Some(d_gate.finish()),
    }
}

struct Backward<'a, T: Element> {
    dy: Rows<'a, T>,
    x: Rows<'a, T>,
    gate: Rows<'a, T>,
    inputs: &'a Given<'a, T>,
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
        [mut dx, mut d_gate]: [Unwritten<'_, T>; 2],
        _: Unwritten<'_, ()>,
    ) -> Vec<T::Acc> {
        let width = self.axis.width;
        let rstd = self.inputs.rstd;
        let mut dw = self.inputs.partial(self.axis);
        // A row's silu(z) and its slope, so that its exponentials are taken once, and its v.
        let [mut silus, mut slopes, mut gated] = [(); 3].map(|()| vec![T::Acc::ZERO; width]);
        let rows = self.dy.range(range.clone());
        let rows = rows.zip(
            self.x
                .range(range.clone())
                .zip(self.gate.range(range.clone())),
        );
        for (row, (dy, (x, gate))) in range.zip(rows) {
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
            let gradients = norm.zip(gates).map(|(((dy, v), g), ((x, silu), slope))| {
                let dv = r * (dy.load() * *g - *v * along);
                let d_gate = dv * x.load() * *slope;
                (T::round(dv * *silu), T::round(d_gate))
            });
            dx.row(width).write_with(d_gate.row(width), gradients);
            if let Some(dw) = dw.get_mut(place) {
                for ((dw, dy), v) in dw.iter_mut().zip(dy).zip(&gated) {
                    *dw += dy.load() * (*v * r);
                }
            }
        }
        dw
    }
}
