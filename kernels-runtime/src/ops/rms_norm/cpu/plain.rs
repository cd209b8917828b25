//! Without a gate.

use super::{Axis, Given, Steps};
use crate::cpu::{Element, Kernel, Output, Rows, Unwritten, run, sum_of, sum_of_squares};
use crate::ops::rms_norm::autodiff::Gradients;
use burn::backend::flex::FlexTensor;
use std::marker::PhantomData;
use std::ops::Range;

pub(super) fn forward<T: Element, R: Steps<T>>(
    x: &FlexTensor,
    axis: &Axis<T>,
) -> (FlexTensor, FlexTensor) {
    let mut y = Output::<T>::new(x.layout().shape().clone());
    let mut rstd = Output::<T::Acc>::new(axis.per_row(x));
    let x = Rows::<T>::readable(x);
    let kernel = Forward::<T, R> {
        x: axis.rows(&x),
        axis,
        steps: PhantomData,
    };
    let count = kernel.x.count();
    run(&kernel, count, axis.width, [&mut y], &mut rstd);
    (y.finish(), rstd.finish())
}

struct Forward<'a, T: Element, R> {
    x: Rows<'a, T>,
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
        for (row, x) in range.clone().zip(self.x.range(range)) {
            let r = self.axis.rstd(sum_of_squares(x, T::load));
            rstd.push(r);
            let scaled = x.iter().zip(&self.axis.gain[self.axis.of_row(row)]);
            let scaled = scaled.map(|(x, g)| T::round(R::step(x.load() * r) * *g));
            y.row(width).write(scaled);
        }
    }
}

pub(super) fn backward<T: Element>(inputs: &Given<'_, T>, axis: &Axis<T>) -> Gradients<FlexTensor> {
    let x = inputs.x();
    let mut dx = Output::<T>::new(x.layout().shape().clone());
    let (dy, x) = (
        Rows::<T>::readable(inputs.backward.dy()),
        Rows::<T>::readable(x),
    );
    let kernel = Backward {
        dy: axis.rows(&dy),
        x: axis.rows(&x),
        inputs,
        axis,
    };
    let count = kernel.x.count();
    let sums = run(&kernel, count, axis.width, [&mut dx], &mut Output::none());
    Gradients {
        x: dx.finish(),
        weight: inputs.total(axis, &sums),
        gate: None,
    }
}

struct Backward<'a, T: Element> {
    dy: Rows<'a, T>,
    x: Rows<'a, T>,
    inputs: &'a Given<'a, T>,
    axis: &'a Axis<T>,
}

impl<T: Element> Kernel<1> for Backward<'_, T> {
    type Out = T;
    type PerRow = ();
    /// The range's part of the weight's gradient.
    type Sum = Vec<T::Acc>;

    #[inline(always)]
    fn rows(
        &self,
        range: Range<usize>,
        [mut dx]: [Unwritten<'_, T>; 1],
        _: Unwritten<'_, ()>,
    ) -> Vec<T::Acc> {
        let width = self.axis.width;
        let rstd = self.inputs.rstd;
        let mut dw = self.inputs.partial(self.axis);
        let rows = self
            .dy
            .range(range.clone())
            .zip(self.x.range(range.clone()));
        for (row, (dy, x)) in range.zip(rows) {
            let (r, place) = (rstd[row], self.axis.of_row(row));
            let gain = &self.axis.gain[place.clone()];
            let projection = sum_of(dy, x, gain, |dy: T, x: T, g| dy.load() * x.load() * g);
            let along = self.axis.along(projection, r);
            let gradients = dy.iter().zip(x).zip(gain);
            let gradients =
                gradients.map(|((dy, x), g)| T::round(r * (dy.load() * *g - x.load() * along)));
            dx.row(width).write(gradients);
            if let Some(dw) = dw.get_mut(place) {
                for ((dw, dy), x) in dw.iter_mut().zip(dy).zip(x) {
                    *dw += dy.load() * (x.load() * r);
                }
            }
        }
        dw
    }
}
