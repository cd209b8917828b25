use super::{Normalised, divisor, parameter, with_elements};
use crate::{Context, Element, Kernel, Output, Real, Rows, Unwritten, View, run, sum, sums};
use std::ops::Range;

pub(super) fn forward<T: Element>(
    x: &View<'_>,
    weight: &View<'_>,
    bias: Option<&View<'_>>,
    eps: f64,
) -> Normalised {
    let x = Rows::<T>::of(x);
    let (count, width) = (with_elements(&x), x.width());
    let mut y = Output::<T>::new([count, width]);
    let mut statistics = Output::<[T::Acc; 2]>::new([count]);
    let kernel = Forward::<T> {
        x,
        weight: parameter::<T>(weight, width),
        bias: bias.map(|bias| parameter::<T>(bias, width)),
        width,
        eps: T::Acc::of(eps),
    };
    run(&kernel, count, width, [&mut y], &mut statistics);
    let statistics = statistics.into_values();
    let [mean, rstd] = [0, 1].map(|which| {
        let of_pairs = statistics.iter().map(|pair| pair[which]);
        T::Acc::values(of_pairs.collect())
    });
    Normalised {
        y: T::values(y.into_values()),
        mean,
        rstd,
    }
}

struct Forward<'a, T: Element> {
    x: Rows<'a, T>,
    weight: Vec<T::Acc>,
    bias: Option<Vec<T::Acc>>,
    width: usize,
    eps: T::Acc,
}

impl<T: Element> Kernel<1> for Forward<'_, T> {
    type Out = T;
    type Acc = T::Acc;
    /// The mean and the reciprocal of the standard deviation.
    type PerRow = [T::Acc; 2];
    type Sum = ();

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        _: C,
        range: Range<usize>,
        [mut y]: [Unwritten<'_, T>; 1],
        mut statistics: Unwritten<'_, [T::Acc; 2]>,
    ) {
        for x in self.x.range(range) {
            let Moments { mean, rest, rstd } = Moments::of(x, self.eps);
            statistics.push([mean + rest, rstd]);
            let y = y.row(self.width);
            let given = x.iter().zip(&self.weight);
            let scaled = |x: &T, w: &T::Acc| ((x.load() - mean) - rest) * rstd * *w;
            match &self.bias {
                Some(bias) => {
                    let given = given.zip(bias);
                    y.write(given.map(|((x, w), b)| T::round(scaled(x, w) + *b)))
                }
                None => y.write(given.map(|(x, w)| T::round(scaled(x, w)))),
            };
        }
    }
}

/// The moments of a row.
struct Moments<A> {
    /// The mean, rounded.
    mean: A,
    /// The part of the mean that its rounding left out.
    rest: A,
    /// The reciprocal of the standard deviation.
    rstd: A,
}

impl<A: Real> Moments<A> {
    /// Computes the moments in two passes. The second takes the deviations from the rounded mean, whose own mean is
    /// what the mean lacks. Rows far from zero lose nothing by this, where squares of the elements themselves would
    /// cancel.
    #[inline(always)]
    fn of<T: Element<Acc = A>>(row: &[T], eps: A) -> Self {
        let n = divisor::<A>(row.len());
        let mean = sum(row, T::load) / n;
        let [rest, squares] = sums(row, |x| {
            let deviation = x.load() - mean;
            [deviation, deviation * deviation]
        });
        let rest = rest / n;
        // Rounding may leave a little less than nothing of a row of equal elements.
        let variance = (squares / n - rest * rest).at_least(A::ZERO);
        let rstd = A::ONE / (variance + eps).sqrt();
        Self { mean, rest, rstd }
    }
}
