use super::{Backward, Gradients, divisor, parameter, width};
use crate::cpu::{
    Context, Element, Kernel, Output, Real, Rows, Unwritten, contiguous, run, sums_of, total,
};
use crate::ops::layer_norm::Wanted;
use burn::backend::flex::FlexTensor;
use std::ops::Range;

pub(super) fn backward<T: Element>(backward: &Backward<FlexTensor>) -> Gradients<FlexTensor> {
    let operands = backward.operands();
    let (x, dy) = (operands.x(), backward.dy());
    let (x, dy) = (Rows::<T>::readable(x), Rows::<T>::readable(dy));
    let statistics = [backward.mean(), backward.rstd()].map(FlexTensor::to_contiguous);
    let [mean, rstd] = statistics.each_ref().map(contiguous::<T::Acc>);
    let mut dx = Output::<T>::new(x.layout().shape().clone());
    let kernel = Pass::<T> {
        dy: Rows::new(&dy),
        x: Rows::new(&x),
        mean,
        rstd,
        weight: parameter::<T>(operands.weight()),
        width: width(&x),
        wanted: *backward.wanted(),
    };
    let count = kernel.x.count();
    let nothing = &mut Output::none();
    let sums = run(&kernel, count, kernel.width, [&mut dx], nothing);
    let of = |wanted: bool, part: fn(&Sums<T::Acc>) -> &[T::Acc]| {
        wanted.then(|| total::<T>(sums.iter().map(part), kernel.width))
    };
    Gradients {
        weight: of(kernel.wanted.weight, |sums| &sums.weight),
        bias: of(kernel.wanted.bias, |sums| &sums.bias),
        x: dx.finish(),
    }
}

/// The pass over the rows. Deviations from the rounded mean of the forward pass have a mean of their own, what the mean
/// lacks, so that gradients of rows far from zero are as exact as others.
struct Pass<'a, T: Element> {
    dy: Rows<'a, T>,
    x: Rows<'a, T>,
    /// One value for each row.
    mean: &'a [T::Acc],
    rstd: &'a [T::Acc],
    weight: Vec<T::Acc>,
    width: usize,
    wanted: Wanted,
}

/// The partial sums of the parameters' gradients over a range of rows, empty if a gradient is not wanted.
struct Sums<A> {
    weight: Vec<A>,
    bias: Vec<A>,
}

impl<T: Element> Kernel<1> for Pass<'_, T> {
    type Out = T;
    type Acc = T::Acc;
    type PerRow = ();
    type Sum = Sums<T::Acc>;

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        _: C,
        range: Range<usize>,
        [mut dx]: [Unwritten<'_, T>; 1],
        _: Unwritten<'_, ()>,
    ) -> Sums<T::Acc> {
        let zeros = |wanted| vec![T::Acc::ZERO; if wanted { self.width } else { 0 }];
        let mut sums = Sums {
            weight: zeros(self.wanted.weight),
            bias: zeros(self.wanted.bias),
        };
        let n = divisor::<T::Acc>(self.width);
        let rows = self.x.range(range.clone());
        let rows = self.dy.range(range.clone()).zip(rows);
        for (row, (dy, x)) in range.zip(rows) {
            let (mean, rstd) = (self.mean[row], self.rstd[row]);
            let [sum, projection, rest] = sums_of(dy, x, &self.weight, |dy: T, x: T, w| {
                let (scaled, deviation) = (dy.load() * w, x.load() - mean);
                [scaled, scaled * deviation, deviation]
            });
            let (level, rest) = (sum / n, rest / n);
            let projection = projection - sum * rest;
            let normal = |x: &T| ((x.load() - mean) - rest) * rstd;
            let along = projection * rstd / n;
            let given = dy.iter().zip(x).zip(&self.weight);
            dx.row(self.width).write(
                given.map(|((dy, x), w)| {
                    T::round(rstd * (dy.load() * *w - level - normal(x) * along))
                }),
            );
            if self.wanted.weight {
                for ((dw, dy), x) in sums.weight.iter_mut().zip(dy).zip(x) {
                    *dw += dy.load() * normal(x);
                }
            }
            if self.wanted.bias {
                for (db, dy) in sums.bias.iter_mut().zip(dy) {
                    *db += dy.load();
                }
            }
        }
        sums
    }
}
