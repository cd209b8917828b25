use super::{Operands, Order, Parts, placed};
use crate::keys::{HeadLayout, Rounding};
use crate::rms_norm::{Axis, without};
use crate::rope::{Direction, Halves, Neighbours, Places, Rotated, Unrotated, four_axes};
use crate::{
    Context, Element, Kernel, LANES, Lanes, Output, Read, Real, RowIter, Rows, Unwritten, Values,
    View, is_half,
};
use std::ops::Range;

pub(super) fn run<T: Element, U: Element<Acc = T::Acc>>(operands: &Operands<'_>) -> Values {
    let parts = Parts::<T, U>::new(operands);
    let (axis, layout) = (&parts.axis, operands.settings.rotation.layout);
    let x = placed(&operands.x, layout);
    let sizes = four_axes(&x);
    let tokens = operands.settings.together.then(|| Tokens {
        rstd: of_tokens(&parts.rows, axis),
        shape: [sizes[1], sizes[2]],
        layout,
    });
    let kernel = Forward::<T, U> {
        x: Rows::of(&x),
        cos: parts.cos.per_head(sizes, layout),
        sin: parts.sin.per_head(sizes, layout),
        pairs: parts.cos.pairs(),
        axis,
        tokens,
        order: parts.order,
    };
    let mut y = Output::<T>::new(sizes);
    // Heads without elements have no result, and no norm.
    if kernel.x.width() > 0 {
        let (count, width) = (kernel.x.count(), kernel.x.width());
        crate::run(&kernel, count, width, [&mut y], &mut Output::none());
    }
    T::values(y.into_values())
}

/// Returns `rstd` of every token.
fn of_tokens<T: Element>(rows: &View<'_>, axis: &Axis<T>) -> Vec<T::Acc> {
    let kernel = OfTokens {
        x: axis.rows(rows),
        axis,
    };
    let count = kernel.x.count();
    let mut rstd = Output::new([count]);
    crate::run(&kernel, count, axis.width, [], &mut rstd);
    rstd.into_values()
}

struct OfTokens<'a, T: Element> {
    x: Rows<'a, T>,
    axis: &'a Axis<T>,
}

impl<T: Element> Kernel<0> for OfTokens<'_, T> {
    type Out = T;
    type Acc = T::Acc;
    type PerRow = T::Acc;
    type Sum = ();

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        c: C,
        range: Range<usize>,
        _: [Unwritten<'_, T>; 0],
        mut rstd: Unwritten<'_, T::Acc>,
    ) {
        for x in self.x.range(range) {
            rstd.push(without::rstd(c, x, self.axis));
        }
    }
}

/// The norms of tokens.
struct Tokens<A> {
    rstd: Vec<A>,
    /// The sizes of the result's second and third axis.
    shape: [usize; 2],
    layout: HeadLayout,
}

impl<A: Copy> Tokens<A> {
    /// Returns `rstd` and the head of a row of the result.
    #[inline(always)]
    fn of_row(&self, row: usize) -> (A, usize) {
        let [second, third] = self.shape;
        let (lead, inner) = (row / third, row % third);
        let (batch, middle) = (lead / second, lead % second);
        match self.layout {
            HeadLayout::Bnsd => (self.rstd[batch * third + inner], middle),
            HeadLayout::Bsnd => (self.rstd[lead], inner),
        }
    }
}

/// The number of rows of half types that are normalised together.
const TOGETHER: usize = 4;

struct Forward<'a, T: Element, U> {
    /// The heads in the order of the result.
    x: Rows<'a, T>,
    cos: Rows<'a, U>,
    sin: Rows<'a, U>,
    /// The number of rotated pairs of a head.
    pairs: usize,
    axis: &'a Axis<T>,
    /// Present if the heads of a token are normalised together.
    tokens: Option<Tokens<T::Acc>>,
    order: Order,
}

impl<T: Element, U: Element<Acc = T::Acc>> Kernel<1> for Forward<'_, T, U> {
    type Out = T;
    type Acc = T::Acc;
    type PerRow = ();
    type Sum = ();

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        c: C,
        range: Range<usize>,
        [mut y]: [Unwritten<'_, T>; 1],
        _: Unwritten<'_, ()>,
    ) {
        let width = self.x.width();
        let [mut cos, mut sin] = [&self.cos, &self.sin].map(|table| table.range(range.clone()));
        let mut rows = self.x.range(range.clone());
        // In f32, rows wait for the memory, which hides the time that roots and quotients take.
        let are_together = is_half::<T>() && self.tokens.is_none();
        let mut ahead = are_together.then(|| self.x.range(range.clone()));
        for first in range.clone().step_by(TOGETHER) {
            let some = first..range.end.min(first + TOGETHER);
            let of_rows = match &mut ahead {
                Some(ahead) => self.of_rows(c, ahead, some.len()),
                None => [T::Acc::ONE; TOGETHER],
            };
            for (row, of_row) in some.zip(of_rows) {
                let (x, angles) = (rows.row(), [cos.row(), sin.row()]);
                let (rstd, head) = match &self.tokens {
                    Some(tokens) => tokens.of_row(row),
                    None if are_together => (of_row, 0),
                    None => (without::rstd(c, x, self.axis), 0),
                };
                let gain = &self.axis.gain[head * width..][..width];
                let (y, row) = (y.row(width), Row { x, gain, rstd });
                match self.order {
                    Order::Halves => self.head::<C, Halves>(c, row, angles, y),
                    Order::Neighbours => self.head::<C, Neighbours>(c, row, angles, y),
                }
            }
        }
    }
}

/// A head, the factors of its elements, and its `rstd`.
struct Row<'a, T: Element> {
    x: &'a [T],
    gain: &'a [T::Acc],
    rstd: T::Acc,
}

impl<T: Element, U: Element<Acc = T::Acc>> Forward<'_, T, U> {
    /// Normalises and rotates a head whose pairs are in the order `P`.
    #[inline(always)]
    fn head<C: Context, P: Places>(
        &self,
        c: C,
        Row { x, gain, rstd }: Row<'_, T>,
        angles: [&[U]; 2],
        y: crate::Row<'_, T>,
    ) {
        let (rotated, rest) = y.split_at(2 * self.pairs);
        let (x, x_rest) = x.split_at(2 * self.pairs);
        let (gain, gain_rest) = gain.split_at(2 * self.pairs);
        let rounding = self.axis.rounding;
        let head = Normalised::<T, C, P> {
            x: P::pairs(x),
            gain: P::pairs(gain),
            rstd: C::Of::splat(c, rstd),
            rounding,
        };
        let pairs = Rotated::new(c, head, angles, self.pairs, Direction::Forward);
        P::write(rotated, &pairs);
        without::scale(c, x_rest, rstd, gain_rest, rounding, rest);
    }

    /// Returns `rstd` of the next rows. Their roots and quotients are computed together, which takes as long as those of one.
    #[inline(always)]
    fn of_rows<C: Context>(
        &self,
        c: C,
        rows: &mut RowIter<'_, T>,
        count: usize,
    ) -> [T::Acc; TOGETHER] {
        let mut of_rows = [T::Acc::ONE; TOGETHER];
        for squares in &mut of_rows[..count] {
            *squares = without::squares(c, rows.row());
        }
        for of_row in &mut of_rows {
            *of_row = self.axis.rstd(*of_row);
        }
        of_rows
    }
}

/// A head of which each block is normalised when it is rotated.
struct Normalised<'a, T: Element + 'a, C: Context, P: Places> {
    x: P::Of<'a, T>,
    gain: P::Of<'a, T::Acc>,
    rstd: C::Of<T::Acc>,
    rounding: Rounding,
}

impl<T: Element, C: Context, P: Places> Unrotated<T::Acc, C> for Normalised<'_, T, C, P> {
    /// Rounds as the norm does, whose result is the input of the rotation.
    #[inline(always)]
    fn at<B: Read>(&self, c: C, at: usize) -> [C::Of<T::Acc>; 2] {
        let [x1, x2] = P::block::<B, T>(self.x, at);
        let [g1, g2] = P::block::<B, T::Acc>(self.gain, at);
        [self.normalised(c, &x1, &g1), self.normalised(c, &x2, &g2)]
    }
}

impl<T: Element, C: Context, P: Places> Normalised<'_, T, C, P> {
    #[inline(always)]
    fn normalised(&self, c: C, x: &[T; LANES], gain: &[T::Acc; LANES]) -> C::Of<T::Acc> {
        let scaled = self.rounding.lanes::<C, T>(c, T::lanes(c, x) * self.rstd);
        T::held(c, scaled * C::Of::<T::Acc>::read(c, gain))
    }
}
