//! Rotary position embedding on Flex: one pass over the heads, which are read with any strides and
//! written contiguously.

mod angles;
mod order;

use super::{RopeBackend, RopeKernel, Tensors};
use crate::cpu::{
    BASE, Element, Kernel, LANES, Output, Pairs, Real, Row, Rows, Unwritten, dispatch_dtype, run,
};
use crate::ops::operands::{array, checked};
use crate::registry::{Implementation, Launch};
use crate::semantics::{HeadLayout, RopeKey, RopeStyle, SemanticsKey};
pub(in crate::ops) use angles::Angles;
use angles::halves;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use order::lanes;
pub(in crate::ops) use order::{Direction, Halves, Neighbours, Places};
use std::marker::PhantomData;
use std::ops::Range;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: Launch::Rope(super::launch),
    accepts: |key| matches!(key, SemanticsKey::Rope(_)),
    ..BASE
};

impl RopeBackend for Flex {
    fn rope(operands: Tensors<Self>) -> FlexTensor {
        Self::rope_forward(operands)
    }
}

impl RopeKernel for Flex {
    fn rope_forward(operands: Tensors<Self>) -> FlexTensor {
        rotate(operands, Direction::Forward)
    }

    fn rope_backward(operands: Tensors<Self>) -> FlexTensor {
        rotate(operands, Direction::Backward)
    }
}

/// Rotates `x`, or turns the gradient of the result into that of `x`.
fn rotate(operands: Tensors<Flex>, direction: Direction) -> FlexTensor {
    let (dtype, key) = (checked(operands.dtype()), operands.key());
    let [x, cos, sin] = array(operands.into_tensors());
    dispatch_dtype!(dtype, T => {
        if cos.dtype() == dtype {
            by_style::<T, T>(&x, cos, sin, direction, key)
        } else {
            by_style::<T, <T as Element>::Acc>(&x, cos, sin, direction, key)
        }
    })
}

/// Calls the loop of the key's style. `T` is the element type of heads, `U` that of tables.
fn by_style<T: Element, U: Element<Acc = T::Acc>>(
    x: &FlexTensor,
    cos: FlexTensor,
    sin: FlexTensor,
    direction: Direction,
    key: RopeKey,
) -> FlexTensor {
    let (cos, sin) = (Angles::<U>::new(cos, key), Angles::<U>::new(sin, key));
    let rotate = match (key.style, direction) {
        (RopeStyle::Half, _) => in_order::<T, U, Halves, Halves>,
        (RopeStyle::Interleaved, _) => in_order::<T, U, Neighbours, Neighbours>,
        (RopeStyle::InterleavedToHalf, Direction::Forward) => in_order::<T, U, Neighbours, Halves>,
        (RopeStyle::InterleavedToHalf, Direction::Backward) => in_order::<T, U, Halves, Neighbours>,
    };
    rotate(x, &cos, &sin, direction, key.layout)
}

/// Reads pairs in the order `R` and writes them in the order `W`.
fn in_order<T: Element, U: Element<Acc = T::Acc>, R: Places, W: Places>(
    x: &FlexTensor,
    cos: &Angles<U>,
    sin: &Angles<U>,
    direction: Direction,
    layout: HeadLayout,
) -> FlexTensor {
    let shape = x.layout().shape();
    let mut y = Output::<T>::new(shape.clone());
    let readable = Rows::<T>::readable(x);
    let kernel = Rotate::<T, U, (R, W)> {
        x: Rows::new(&readable),
        cos: cos.per_head(shape, layout),
        sin: sin.per_head(shape, layout),
        pairs: cos.pairs(),
        direction,
        order: PhantomData,
    };
    let (count, width) = (kernel.x.count(), kernel.x.width());
    run(&kernel, count, width, [&mut y], &mut Output::none());
    y.finish()
}

struct Rotate<'a, T, U, Order> {
    x: Rows<'a, T>,
    cos: Rows<'a, U>,
    sin: Rows<'a, U>,
    /// The number of rotated pairs of a row. The rest of the row is copied.
    pairs: usize,
    direction: Direction,
    order: PhantomData<Order>,
}

impl<T: Element, U: Element<Acc = T::Acc>, R: Places, W: Places> Kernel<1>
    for Rotate<'_, T, U, (R, W)>
{
    type Out = T;
    type PerRow = ();
    type Sum = ();

    #[inline(always)]
    fn rows(&self, range: Range<usize>, [mut y]: [Unwritten<'_, T>; 1], _: Unwritten<'_, ()>) {
        let width = self.x.width();
        let [mut cos, mut sin] = [&self.cos, &self.sin].map(|table| table.range(range.clone()));
        for x in self.x.range(range) {
            let angles = [cos.row(), sin.row()];
            turn::<T, U, R, W>(x, y.row(width), angles, self.pairs, self.direction);
        }
    }
}

/// Rotates the first `pairs` pairs of a head and copies the rest.
#[inline(always)]
pub(in crate::ops) fn turn<T: Element, U: Element<Acc = T::Acc>, R: Places, W: Places>(
    x: &[T],
    y: Row<'_, T>,
    [cos, sin]: [&[U]; 2],
    pairs: usize,
    direction: Direction,
) {
    let sign = T::Acc::of(direction.sign());
    let (y, y_rest) = y.split_at(2 * pairs);
    let (x, x_rest) = x.split_at(2 * pairs);
    let rotated = Rotated::<T, U, R> {
        x: R::pairs(x),
        cos: halves(cos, pairs),
        sin: direction.order(halves(sin, pairs)),
        sign,
    };
    W::write(y, &rotated);
    y_rest.copy(x_rest);
}

/// The rotated pairs of a head.
struct Rotated<'a, T: Element, U, R: Places> {
    x: R::Of<'a, T>,
    cos: (&'a [U], &'a [U]),
    sin: (&'a [U], &'a [U]),
    sign: T::Acc,
}

impl<T: Element, U: Element<Acc = T::Acc>, R: Places> Rotated<'_, T, U, R> {
    #[inline(always)]
    fn pair(&self, [x1, x2]: [T; 2], [c1, c2]: [U; 2], [s1, s2]: [U; 2]) -> [T; 2] {
        let (x1, x2) = (x1.load(), x2.load());
        let y1 = x1 * c1.load() - x2 * (self.sign * s1.load());
        let y2 = x2 * c2.load() + x1 * (self.sign * s2.load());
        [T::round(y1), T::round(y2)]
    }
}

impl<T: Element, U: Element<Acc = T::Acc>, R: Places> Pairs<T> for Rotated<'_, T, U, R> {
    #[inline(always)]
    fn whole(&self, at: usize) -> [[T; LANES]; 2] {
        let [x1, x2] = R::whole(self.x, at);
        let (c1, c2) = (lanes(self.cos.0, at), lanes(self.cos.1, at));
        let (s1, s2) = (lanes(self.sin.0, at), lanes(self.sin.1, at));
        let mut y = [x1, x2];
        for i in 0..LANES {
            [y[0][i], y[1][i]] = self.pair([x1[i], x2[i]], [c1[i], c2[i]], [s1[i], s2[i]]);
        }
        y
    }

    #[inline(always)]
    fn one(&self, at: usize) -> [T; 2] {
        let (cos, sin) = (self.cos, self.sin);
        self.pair(
            R::one(self.x, at),
            [cos.0[at], cos.1[at]],
            [sin.0[at], sin.1[at]],
        )
    }
}
