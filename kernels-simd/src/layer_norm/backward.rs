use super::{Backward, Gradients, divisor, parameter, with_elements};
use crate::{Context, Element, Kernel, Output, Real, Rows, Unwritten, run, sums_of, total};
use std::ops::Range;

pub(super) fn backward<T: Element>(given: &Backward<'_>) -> Gradients {
    let (dy, x) = (Rows::<T>::of(&given.dy), Rows::<T>::of(&given.x));
    let (count, width) = (with_elements(&x), x.width());
    let (mean, rstd) = (given.mean.contiguous(), given.rstd.contiguous());
    assert!(
        [with_elements(&dy), mean.len(), rstd.len()] == [count; 3] && dy.width() == width,
        "{} rows of {} elements, {} means and {} deviations are not of {count} rows of {width}",
        dy.count(),
        dy.width(),
        mean.len(),
        rstd.len()
    );
    let mut dx = Output::<T>::new([count, width]);
    let kernel = Pass::<T> {
        dy,
        x,
        mean,
        rstd,
        weight: parameter::<T>(&given.weight, width),
        width,
        wants_weight: given.wants_weight,
        wants_bias: given.wants_bias,
    };
    let nothing = &mut Output::none();
    let sums = run(&kernel, count, width, [&mut dx], nothing);
    let of = |wanted: bool, part: fn(&Sums<T::Acc>) -> &[T::Acc]| {
        wanted.then(|| T::values(total::<T>(sums.iter().map(part), width)))
    };
    Gradients {
        weight: of(given.wants_weight, |sums| &sums.weight),
        bias: of(given.wants_bias, |sums| &sums.bias),
        x: T::values(dx.into_values()),
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
    wants_weight: bool,
    wants_bias: bool,
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
            weight: zeros(self.wants_weight),
            bias: zeros(self.wants_bias),
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
            if self.wants_weight {
                for ((dw, dy), x) in sums.weight.iter_mut().zip(dy).zip(x) {
                    *dw += dy.load() * normal(x);
                }
            }
            if self.wants_bias {
                for (db, dy) in sums.bias.iter_mut().zip(dy) {
                    *db += dy.load();
                }
            }
        }
        sums
    }
}
