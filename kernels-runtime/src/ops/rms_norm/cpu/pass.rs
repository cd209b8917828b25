//! The passes over rows: with a gate `silu(z)` before the norm, with one after it, or [without](super::without) one.

use super::{Axis, Steps};
use crate::cpu::{
    Context, Element, Kernel, Number, Output, Real, Row, Rows, Unwritten, run, sum_of,
    sum_of_squares,
};
use crate::ops::rms_norm::autodiff::Gradients;
use burn::backend::flex::FlexTensor;
use std::marker::PhantomData;
use std::ops::Range;

/// The computation of a row in the cache, with a gate before the norm, after it, or without one. `N` is the number of
/// tensors of the row's shape that have a gradient.
pub(in crate::ops) trait Gate<T: Element, const N: usize>: Sync {
    /// Writes the result and returns `rstd`.
    fn forward<C: Context, R: Steps<T>>(
        row: Operands<'_, T, C>,
        axis: &Axis<T>,
        scratch: &mut Scratch<T>,
        y: Row<'_, T>,
    ) -> T::Acc;

    /// Writes the gradients of the row and of its gate. Adds to the gradient of the weight, if it is wanted.
    fn backward<C: Context>(
        dy: &[T],
        row: Operands<'_, T, C>,
        rstd: T::Acc,
        axis: &Axis<T>,
        scratch: &mut Scratch<T>,
        gradients: [Row<'_, T>; N],
        dw: Option<&mut [T::Acc]>,
    );
}

/// The operands of one row.
pub(in crate::ops) struct Operands<'a, T: Element, C> {
    pub(in crate::ops) x: &'a [T],
    /// The row of the gate. Without a gate, any row.
    pub(in crate::ops) gate: &'a [T],
    pub(in crate::ops) gain: &'a [T::Acc],
    /// The instructions to compute with.
    pub(in crate::ops) c: C,
}

/// Buffers for a gated row in the accumulation type.
pub(in crate::ops) struct Scratch<T: Element> {
    /// The gate's factor times the row, or times `dy`.
    gated: Vec<T::Acc>,
    /// `silu(z)` and its slope, kept so that each exponential is computed once.
    silus: Vec<T::Acc>,
    slopes: Vec<T::Acc>,
}

impl<T: Element> Scratch<T> {
    /// Allocates nothing for rows without a gate, where only `x` has a gradient (`N` is 1).
    pub(in crate::ops) fn new<const N: usize>(width: usize) -> Self {
        let width = if N > 1 { width } else { 0 };
        let [gated, silus, slopes] = [(); 3].map(|()| vec![T::Acc::ZERO; width]);
        Self {
            gated,
            silus,
            slopes,
        }
    }
}

/// The gate before the norm: `y = v̂ · g`, `v = x · silu(z)`.
pub(in crate::ops) struct Before;

impl<T: Element> Gate<T, 2> for Before {
    #[inline(always)]
    fn forward<C: Context, R: Steps<T>>(
        row: Operands<'_, T, C>,
        axis: &Axis<T>,
        scratch: &mut Scratch<T>,
        y: Row<'_, T>,
    ) -> T::Acc {
        let gated = &mut scratch.gated;
        for ((v, x), z) in gated.iter_mut().zip(row.x).zip(row.gate) {
            let z = z.load();
            *v = x.load() * (z * z.sigmoid());
        }
        let r = axis.rstd(sum_of_squares(gated, |v| v));
        let scaled = gated.iter().zip(row.gain);
        y.write(scaled.map(|(v, g)| T::round(R::step(*v * r) * *g)));
        r
    }

    #[inline(always)]
    fn backward<C: Context>(
        dy: &[T],
        row: Operands<'_, T, C>,
        r: T::Acc,
        axis: &Axis<T>,
        scratch: &mut Scratch<T>,
        [dx, d_gate]: [Row<'_, T>; 2],
        dw: Option<&mut [T::Acc]>,
    ) {
        let Operands { x, gate, gain, .. } = row;
        let Scratch {
            gated,
            silus,
            slopes,
        } = scratch;
        let places = gated.iter_mut().zip(&mut *silus).zip(&mut *slopes);
        for (((v, silu), slope), (x, z)) in places.zip(x.iter().zip(gate)) {
            (*silu, *slope) = z.load().silu_with_slope();
            *v = x.load() * *silu;
        }
        let projection = sum_of(dy, gated, gain, |dy: T, v: T::Acc, g| dy.load() * v * g);
        let along = axis.along(projection, r);
        let norm = dy.iter().zip(&*gated).zip(gain);
        let gates = x.iter().zip(&*silus).zip(&*slopes);
        let gradients = norm.zip(gates).map(|(((dy, v), g), ((x, silu), slope))| {
            let dv = r * (dy.load() * *g - *v * along);
            let d_gate = dv * x.load() * *slope;
            (T::round(dv * *silu), T::round(d_gate))
        });
        dx.write_with(d_gate, gradients);
        if let Some(dw) = dw {
            for ((dw, dy), v) in dw.iter_mut().zip(dy).zip(&*gated) {
                *dw += dy.load() * (*v * r);
            }
        }
    }
}

/// The gate after the norm: `y = x̂ · g · silu(z)`.
pub(in crate::ops) struct After;

impl<T: Element> Gate<T, 2> for After {
    #[inline(always)]
    fn forward<C: Context, R: Steps<T>>(
        row: Operands<'_, T, C>,
        axis: &Axis<T>,
        _: &mut Scratch<T>,
        y: Row<'_, T>,
    ) -> T::Acc {
        let r = axis.rstd(sum_of_squares(row.x, T::load));
        let results = row.x.iter().zip(row.gate).zip(row.gain);
        y.write(results.map(|((x, z), g)| {
            let z = z.load();
            let scaled = R::step(R::step(x.load() * r) * *g);
            T::round(scaled * (z * z.sigmoid()))
        }));
        r
    }

    #[inline(always)]
    fn backward<C: Context>(
        dy: &[T],
        row: Operands<'_, T, C>,
        r: T::Acc,
        axis: &Axis<T>,
        scratch: &mut Scratch<T>,
        [dx, d_gate]: [Row<'_, T>; 2],
        dw: Option<&mut [T::Acc]>,
    ) {
        let Operands { x, gate, gain, .. } = row;
        // `dy · silu(z)`, the input of the norm's own gradients.
        let gated = &mut scratch.gated;
        let given = dy.iter().zip(x).zip(gate).zip(gain).zip(&mut *gated);
        d_gate.write(given.map(|((((dy, x), z), g), gated)| {
            let dy = dy.load();
            let (silu, slope) = z.load().silu_with_slope();
            *gated = dy * silu;
            T::round(dy * (x.load() * r * *g) * slope)
        }));
        let projection = sum_of(gated, x, gain, |dy: T::Acc, x: T, g| dy * x.load() * g);
        let along = axis.along(projection, r);
        let gradients = gated.iter().zip(x).zip(gain);
        dx.write(gradients.map(|((dy, x), g)| T::round(r * (*dy * *g - x.load() * along))));
        if let Some(dw) = dw {
            for ((dw, dy), x) in dw.iter_mut().zip(&*gated).zip(x) {
                *dw += *dy * (x.load() * r);
            }
        }
    }
}

pub(super) fn forward<T: Element, R: Steps<T>, P: Gate<T, N>, const N: usize>(
    x: &FlexTensor,
    gate: Option<&FlexTensor>,
    axis: &Axis<T>,
) -> (FlexTensor, FlexTensor) {
    let mut y = Output::<T>::new(x.layout().shape().clone());
    let mut rstd = Output::<T::Acc>::new(axis.per_row(x));
    let (x, gate) = (Rows::<T>::readable(x), gate.map(Rows::<T>::readable));
    let kernel = Forward::<T, (R, P), N> {
        x: axis.rows(&x),
        gate: axis.rows(gate.as_ref().unwrap_or(&x)),
        axis,
        variant: PhantomData,
    };
    let count = kernel.x.count();
    run(&kernel, count, axis.width, [&mut y], &mut rstd);
    (y.finish(), rstd.finish())
}

struct Forward<'a, T: Element, V, const N: usize> {
    x: Rows<'a, T>,
    gate: Rows<'a, T>,
    axis: &'a Axis<T>,
    variant: PhantomData<V>,
}

impl<T: Element, R: Steps<T>, P: Gate<T, N>, const N: usize> Kernel<1>
    for Forward<'_, T, (R, P), N>
{
    type Out = T;
    type Acc = T::Acc;
    type PerRow = T::Acc;
    type Sum = ();

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        c: C,
        range: Range<usize>,
        [mut y]: [Unwritten<'_, T>; 1],
        mut rstd: Unwritten<'_, T::Acc>,
    ) {
        let width = self.axis.width;
        let mut scratch = Scratch::new::<N>(width);
        let rows = self.x.range(range.clone());
        let rows = rows.zip(self.gate.range(range.clone()));
        for (row, (x, gate)) in range.zip(rows) {
            let gain = &self.axis.gain[self.axis.of_row(row)];
            let row = Operands { x, gate, gain, c };
            rstd.push(P::forward::<C, R>(
                row,
                self.axis,
                &mut scratch,
                y.row(width),
            ));
        }
    }
}

pub(super) fn backward<T: Element, P: Gate<T, N>, const N: usize>(
    inputs: &super::Given<'_, T>,
    gate: Option<&FlexTensor>,
    axis: &Axis<T>,
) -> Gradients<FlexTensor> {
    let x = inputs.x();
    let mut outputs = [(); N].map(|()| Output::<T>::new(x.layout().shape().clone()));
    let (dy, x) = (
        Rows::<T>::readable(inputs.backward.dy()),
        Rows::<T>::readable(x),
    );
    let gate = gate.map(Rows::<T>::readable);
    let kernel = Backward::<T, P, N> {
        dy: axis.rows(&dy),
        x: axis.rows(&x),
        gate: axis.rows(gate.as_ref().unwrap_or(&x)),
        inputs,
        axis,
        variant: PhantomData,
    };
    let count = kernel.x.count();
    let sums = run(
        &kernel,
        count,
        axis.width,
        outputs.each_mut(),
        &mut Output::none(),
    );
    let mut gradients = outputs.into_iter().map(Output::finish);
    Gradients {
        x: gradients.next().expect("a pass has the gradient of x"),
        weight: inputs.total(axis, &sums),
        gate: gradients.next(),
    }
}

struct Backward<'a, T: Element, P, const N: usize> {
    dy: Rows<'a, T>,
    x: Rows<'a, T>,
    gate: Rows<'a, T>,
    inputs: &'a super::Given<'a, T>,
    axis: &'a Axis<T>,
    variant: PhantomData<P>,
}

impl<T: Element, P: Gate<T, N>, const N: usize> Kernel<N> for Backward<'_, T, P, N> {
    type Out = T;
    type Acc = T::Acc;
    type PerRow = ();
    /// The partial sum of the weight's gradient over the range.
    type Sum = Vec<T::Acc>;

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        c: C,
        range: Range<usize>,
        mut outputs: [Unwritten<'_, T>; N],
        _: Unwritten<'_, ()>,
    ) -> Vec<T::Acc> {
        let width = self.axis.width;
        let mut dw = self.inputs.partial(self.axis);
        let mut scratch = Scratch::new::<N>(width);
        let rows = self.x.range(range.clone());
        let rows = rows.zip(self.gate.range(range.clone()));
        let rows = self.dy.range(range.clone()).zip(rows);
        for (row, (dy, (x, gate))) in range.zip(rows) {
            let (rstd, place) = (self.inputs.rstd[row], self.axis.of_row(row));
            let gain = &self.axis.gain[place.clone()];
            let gradients = outputs.each_mut().map(|output| output.row(width));
            let row = Operands { x, gate, gain, c };
            let dw = dw.get_mut(place);
            P::backward(dy, row, rstd, self.axis, &mut scratch, gradients, dw);
        }
        dw
    }
}
