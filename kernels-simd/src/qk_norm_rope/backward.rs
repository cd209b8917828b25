use super::{Gradients, Operands, Order, Parts, placed};
use crate::keys::HeadLayout;
use crate::rms_norm::{Axis, RowOperands, without};
use crate::rope::{Direction, Halves, Neighbours, four_axes, turn};
use crate::{Context, Element, Kernel, Output, Real, Rows, Scratch, Unwritten, View, total};
use std::ops::Range;

pub(super) fn run<T: Element, U: Element<Acc = T::Acc>>(
    operands: &Operands<'_>,
    dy: &View<'_>,
    wanted: bool,
) -> Gradients {
    let parts = Parts::<T, U>::new(operands);
    let (axis, sizes) = (&parts.axis, four_axes(&operands.x));
    let dy = placed(dy, operands.settings.rotation.layout);
    dy.must_be_like(&operands.x);
    let kernel = Backward::<T, U> {
        dy: Rows::of(&dy),
        x: axis.rows(&parts.rows),
        cos: parts.cos.per_head(sizes, HeadLayout::Bsnd),
        sin: parts.sin.per_head(sizes, HeadLayout::Bsnd),
        pairs: parts.cos.pairs(),
        axis,
        wanted,
        order: parts.order,
    };
    let mut dx = Output::<T>::new(sizes);
    let count = kernel.x.count();
    let sums = crate::run(&kernel, count, axis.width, [&mut dx], &mut Output::none());
    let sums = sums.iter().map(Vec::as_slice);
    Gradients {
        weight: wanted.then(|| T::values(total::<T>(sums, axis.gain.len()))),
        x: T::values(dx.into_values()),
    }
}

struct Backward<'a, T: Element, U> {
    /// The heads of the result's gradient in the order of `x`.
    dy: Rows<'a, T>,
    /// The rows that are normalised, each of one head or of all heads of a token.
    x: Rows<'a, T>,
    cos: Rows<'a, U>,
    sin: Rows<'a, U>,
    /// The number of rotated pairs of a head.
    pairs: usize,
    axis: &'a Axis<T>,
    /// True if the gradient of the weight is wanted.
    wanted: bool,
    order: Order,
}

impl<T: Element, U: Element<Acc = T::Acc>> Kernel<1> for Backward<'_, T, U> {
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
        [mut dx]: [Unwritten<'_, T>; 1],
        _: Unwritten<'_, ()>,
    ) -> Vec<T::Acc> {
        let (axis, width) = (self.axis, self.dy.width());
        // Heads without elements have no gradients.
        let heads_of_row = axis.width.checked_div(width).unwrap_or(0);
        let heads = range.start * heads_of_row..range.end * heads_of_row;
        let [mut cos, mut sin] = [&self.cos, &self.sin].map(|table| table.range(heads.clone()));
        let mut heads = self.dy.range(heads);
        let mut dw = vec![T::Acc::ZERO; if self.wanted { axis.gain.len() } else { 0 }];
        let mut turned = Scratch::new();
        for x in self.x.range(range) {
            let mut rest = turned.row(axis.width, T::round(T::Acc::ZERO));
            for _ in 0..heads_of_row {
                let (dy, angles) = (heads.row(), [cos.row(), sin.row()]);
                let (head, others) = rest.split_at(width);
                let (pairs, direction) = (self.pairs, Direction::Backward);
                match self.order {
                    Order::Halves => {
                        turn::<C, T, U, Halves, Halves>(c, dy, head, angles, pairs, direction);
                    }
                    Order::Neighbours => {
                        turn::<C, T, U, Neighbours, Neighbours>(
                            c, dy, head, angles, pairs, direction,
                        );
                    }
                }
                rest = others;
            }
            let rstd = without::rstd(c, x, axis);
            let gain = &axis.gain;
            let (dx, dw) = (dx.row(axis.width), self.wanted.then_some(&mut dw[..]));
            let row = RowOperands { x, gain, c };
            without::backward(turned.values(), row, rstd, axis, None, dx, dw);
        }
        dw
    }
}
