//! Rotary position embedding on Flex: one pass over the heads, which are read with any strides and
//! written contiguously.

mod angles;
mod order;

use super::{RopeBackend, RopeKernel, Tensors};
use crate::cpu::{
    BASE, Context, Element, Kernel, LANES, Lanes, Number, Output, Pairs, Read, Real, Row, Rows,
    Unwritten, block, dispatch_dtype, run,
};
use crate::ops::operands::{array, checked};
use crate::registry::{Implementation, Launch};
use crate::semantics::{HeadLayout, RopeKey, RopeStyle, SemanticsKey};
pub(in crate::ops) use angles::Angles;
use angles::halves;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
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
        for x in self.x.range(range) {
            let angles = [cos.row(), sin.row()];
            turn::<C, T, U, R, W>(c, x, y.row(width), angles, self.pairs, self.direction);
        }
    }
}

/// Rotates the first `pairs` pairs of a head and copies the rest.
#[inline(always)]
pub(in crate::ops) fn turn<
    C: Context,
    T: Element,
    U: Element<Acc = T::Acc>,
    R: Places,
    W: Places,
>(
    c: C,
    x: &[T],
    y: Row<'_, T>,
    angles: [&[U]; 2],
    pairs: usize,
    direction: Direction,
) {
    let (y, y_rest) = y.split_at(2 * pairs);
    let (x, x_rest) = x.split_at(2 * pairs);
    let head = Head::<T, R> { pairs: R::pairs(x) };
    W::write(y, &Rotated::new(c, head, angles, pairs, direction));
    y_rest.copy(x_rest);
}

/// The pairs of a head before they are rotated.
pub(in crate::ops) trait Unrotated<A: Real, C: Context> {
    /// Returns the first and the second elements of a block of pairs.
    fn at<B: Read>(&self, c: C, at: usize) -> [C::Of<A>; 2];
}

/// A head as it is in memory.
struct Head<'a, T: 'a, R: Places> {
    pairs: R::Of<'a, T>,
}

impl<T: Element, C: Context, R: Places> Unrotated<T::Acc, C> for Head<'_, T, R> {
    #[inline(always)]
    fn at<B: Read>(&self, c: C, at: usize) -> [C::Of<T::Acc>; 2] {
        let [first, second] = R::block::<B, T>(self.pairs, at);
        [T::lanes(c, &first), T::lanes(c, &second)]
    }
}

/// The rotated pairs of a head.
pub(in crate::ops) struct Rotated<'a, A: Real, C: Context, U, H> {
    head: H,
    cos: [&'a [U]; 2],
    sin: [&'a [U]; 2],
    sign: C::Of<A>,
    c: C,
}

impl<'a, A: Real, C: Context, U, H> Rotated<'a, A, C, U, H> {
    #[inline(always)]
    pub(in crate::ops) fn new(
        c: C,
        head: H,
        [cos, sin]: [&'a [U]; 2],
        pairs: usize,
        direction: Direction,
    ) -> Self {
        Self {
            head,
            cos: halves(cos, pairs).into(),
            sin: direction.order(halves(sin, pairs)).into(),
            sign: C::Of::splat(c, A::of(direction.sign())),
            c,
        }
    }
}

impl<T, C, U, H> Pairs<T> for Rotated<'_, T::Acc, C, U, H>
where
    T: Element,
    C: Context,
    U: Element<Acc = T::Acc>,
    H: Unrotated<T::Acc, C>,
{
    #[inline(always)]
    fn at<B: Read>(&self, at: usize) -> [[T; LANES]; 2] {
        let c = self.c;
        let [x1, x2] = self.head.at::<B>(c, at);
        let (c1, c2) = both::<C, U, B>(c, self.cos, at);
        let (s1, s2) = both::<C, U, B>(c, self.sin, at);
        let y1 = x1 * c1 - x2 * (self.sign * s1);
        let y2 = (self.sign * s2).mul_add(x1, x2 * c2);
        [T::rounded(c, y1), T::rounded(c, y2)]
    }
}

/// Reads a block of each of two rows.
#[inline(always)]
fn both<C: Context, U: Element, B: Read>(
    c: C,
    [first, second]: [&[U]; 2],
    at: usize,
) -> (C::Of<U::Acc>, C::Of<U::Acc>) {
    (
        block::<C, U, B>(c, first, at),
        block::<C, U, B>(c, second, at),
    )
}
