//! Without a gate.

use super::{Axis, BackwardInputs, Steps};
use crate::cpu::{Element, Kernel, Output, Rows, run, sum_of, sum_of_squares};
use crate::ops::rms_norm::autodiff::TensorGradients;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
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
    run(&kernel, count, axis.width, [y.places()], rstd.places());
    // SAFETY: `Forward` writes one `rstd` and `width` elements of `y` for every row, and `run`
    // covers every row.
    unsafe { (y.finish(), rstd.finish()) }
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
        [y]: [&mut [MaybeUninit<T>]; 1],
        rstd: &mut [MaybeUninit<T::Acc>],
    ) {
        let width = self.axis.width;
        for (i, (row, x)) in range.clone().zip(self.x.range(range)).enumerate() {
            let r = self.axis.rstd(sum_of_squares(x, T::load));
            rstd[i].write(r);
            let gain = &self.axis.gain[self.axis.of_row(row)];
            let y = &mut y[i * width..(i + 1) * width];
            for ((y, x), g) in y.iter_mut().zip(x).zip(gain) {
                y.write(T::round(R::step(x.load() * r) * *g));
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
    let (dy, x) = (Rows::<T>::readable(&inputs.dy), Rows::<T>::readable(x));
    let kernel = Backward {
        dy: axis.rows(&dy),
        x: axis.rows(&x),
        inputs,
        axis,
    };
    let count = kernel.x.count();
    let sums = run(&kernel, count, axis.width, [dx.places()], &mut []);
    TensorGradients {
        // SAFETY: `Backward` writes `width` elements of `dx` for every row, and `run` covers every
        // row.
        x: unsafe { dx.finish() },
        weight: inputs.total(axis, &sums),
        gate: None,
    }
}

struct Backward<'a, T: Element> {
    dy: Rows<'a, T>,
    x: Rows<'a, T>,
    inputs: &'a BackwardInputs,
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
        [dx]: [&mut [MaybeUninit<T>]; 1],
        _: &mut [MaybeUninit<()>],
    ) -> Vec<T::Acc> {
        let width = self.axis.width;
        let rstd = self.inputs.rstd.storage::<T::Acc>();
        let mut dw = self.inputs.partial(self.axis);
        let rows = self
            .dy
            .range(range.clone())
            .zip(self.x.range(range.clone()));
        for (i, (row, (dy, x))) in range.zip(rows).enumerate() {
            let (r, place) = (rstd[row], self.axis.of_row(row));
            let gain = &self.axis.gain[place.clone()];
            let projection = sum_of(dy, x, gain, |dy: T, x: T, g| dy.load() * x.load() * g);
            let along = self.axis.along(projection, r);
            let dx = &mut dx[i * width..(i + 1) * width];
            for (((dy, x), g), dx) in dy.iter().zip(x).zip(gain).zip(dx) {
                dx.write(T::round(r * (dy.load() * *g - x.load() * along)));
            }
            if let Some(dw) = dw.get_mut(place) {
                for ((dw, dy), x) in dw.iter_mut().zip(dy).zip(x) {
                    *dw += dy.load() * (x.load() * r);
                }
            }
        }
        dw
    }
}
