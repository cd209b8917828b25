//! With a gate after the norm: `y = x̂ · g · silu(z)`.

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
        let rows = self
            .x
            .range(range.clone())
            .zip(self.gate.range(range.clone()));
        for (row, (x, gate)) in range.zip(rows) {
            let r = self.axis.rstd(sum_of_squares(x, T::load));
            rstd.push(r);
            let gain = &self.axis.gain[self.axis.of_row(row)];
            let results = x.iter().zip(gate).zip(gain).map(|((x, z), g)| {
                let z = z.load();
                let scaled = R::step(R::step(x.load() * r) * *g);
                T::round(scaled * (z * z.sigmoid()))
            });
            y.row(width).write(results);
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
        // `dy · silu(z)`, which the norm's own gradients start from.
        let mut gated = vec![T::Acc::ZERO; width];
        let rows = self.dy.range(range.clone());
        let rows = rows.zip(
            self.x
                .range(range.clone())
                .zip(self.gate.range(range.clone())),
        );
        for (row, (dy, (x, gate))) in range.zip(rows) {
            let (r, place) = (rstd[row], self.axis.of_row(row));
            let gain = &self.axis.gain[place.clone()];
            let given = dy.iter().zip(x).zip(gate).zip(gain).zip(&mut gated);
            let gates = given.map(|((((dy, x), z), g), gated)| {
                let dy = dy.load();
                let (silu, slope) = z.load().silu_with_slope();
                *gated = dy * silu;
                T::round(dy * (x.load() * r * *g) * slope)
            });
            d_gate.row(width).write(gates);
            let projection = sum_of(&gated, x, gain, |dy: T::Acc, x: T, g| dy * x.load() * g);
            let along = self.axis.along(projection, r);
            let gradients = gated.iter().zip(x).zip(gain);
            let gradients =
                gradients.map(|((dy, x), g)| T::round(r * (*dy * *g - x.load() * along)));
            dx.row(width).write(gradients);
            if let Some(dw) = dw.get_mut(place) {
                for ((dw, dy), x) in dw.iter_mut().zip(&gated).zip(x) {
                    *dw += *dy * (x.load() * r);
                }
            }
        }
        dw
    }
}
