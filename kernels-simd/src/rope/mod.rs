//! Rotary position embedding: one pass over the heads, which are read with any strides and written contiguously. A pair
//! `(a, b)` becomes `(a · cos − b · sin, b · cos + a · sin)`.

mod angles;
mod order;

pub(crate) use angles::Angles;
pub(crate) use order::{Direction, Halves, Neighbours, Places};

use crate::keys::{HeadLayout, RopeStyle, TableLayout};
use crate::{
    Context, Element, Kernel, LANES, Lanes, Number, Output, Pairs, Read, Real, Row, Rows,
    Unwritten, Values, View, block, run, with_type,
};
use angles::halves;
use std::ops::Range;

/// The variant of a rotation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The elements of a head that are rotated together.
    pub style: RopeStyle,
    /// The order of the axes.
    pub layout: HeadLayout,
    /// The layout of the tables.
    pub table: TableLayout,
}

/// The operands.
#[derive(Clone, Debug)]
pub struct Operands<'a> {
    /// The tensor to rotate, `[b, h, s, d]` or `[b, s, h, d]` as the settings say, with contiguous rows.
    pub x: View<'a>,
    /// The cosines, `[1 or b, s, w]`, with contiguous rows, in the type of `x` or, for half types, in f32. They rotate at
    /// most `d` elements of a head. The others are copied.
    pub cos: View<'a>,
    /// The sines, of the sizes and the type of the cosines but for the first axis, with contiguous rows.
    pub sin: View<'a>,
    /// The variant.
    pub settings: Settings,
}

/// Returns the rotated tensor.
///
/// # Panics
/// Panics if sizes, types or settings don't go together, or if a tensor can't be read in place.
pub fn forward(operands: &Operands<'_>) -> Values {
    rotate(operands, Direction::Forward)
}

/// Returns the gradient of the tensor that was rotated. `x` is the gradient of the result.
///
/// # Panics
/// Panics under the conditions of [`forward`](forward()).
pub fn backward(operands: &Operands<'_>) -> Values {
    rotate(operands, Direction::Backward)
}

fn rotate(operands: &Operands<'_>, direction: Direction) -> Values {
    let dtype = operands.x.dtype();
    with_type!(dtype, T => match operands.cos.dtype() == dtype {
        true => heads::<T, T>(operands, direction),
        false => heads::<T, <T as Element>::Acc>(operands, direction),
    })
}

/// Rotates heads. `T` is their element type, `U` that of tables.
fn heads<T: Element, U: Element<Acc = T::Acc>>(
    operands: &Operands<'_>,
    direction: Direction,
) -> Values {
    let Operands {
        x,
        cos,
        sin,
        settings,
    } = operands;
    let (sizes, layout) = (four_axes(x), settings.layout);
    let [cos, sin] = Angles::<U>::both([cos, sin], Tokens::of(sizes, layout), *settings);
    let mut y = Output::<T>::new(sizes);
    let kernel = Rotate::<T, U> {
        x: Rows::of(x),
        cos: cos.per_head(sizes, layout),
        sin: sin.per_head(sizes, layout),
        pairs: cos.pairs(),
        style: settings.style,
        direction,
    };
    let (count, width) = (kernel.x.count(), kernel.x.width());
    run(&kernel, count, width, [&mut y], &mut Output::none());
    T::values(y.into_values())
}

/// The sizes of heads.
#[derive(Clone, Copy)]
pub(crate) struct Tokens {
    batch: usize,
    seq: usize,
    /// The number of elements of a head.
    width: usize,
}

impl Tokens {
    pub(crate) fn of(sizes: [usize; 4], layout: HeadLayout) -> Self {
        let [batch, second, third, width] = sizes;
        let seq = match layout {
            HeadLayout::Bnsd => third,
            HeadLayout::Bsnd => second,
        };
        Self { batch, seq, width }
    }
}

/// Returns the sizes of a tensor of heads.
///
/// # Panics
/// Panics if it does not have four axes.
pub(crate) fn four_axes(x: &View<'_>) -> [usize; 4] {
    let sizes = x.sizes();
    let Ok(sizes) = sizes.try_into() else {
        panic!("a tensor of sizes {sizes:?} is not one of heads, with four axes");
    };
    sizes
}

/// The rotation of all heads. It is compiled once for all orders of pairs, which each row asks for.
struct Rotate<'a, T, U> {
    x: Rows<'a, T>,
    cos: Rows<'a, U>,
    sin: Rows<'a, U>,
    /// The number of rotated pairs of a row. The rest of the row is copied.
    pairs: usize,
    style: RopeStyle,
    direction: Direction,
}

impl<T: Element, U: Element<Acc = T::Acc>> Kernel<1> for Rotate<'_, T, U> {
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
        let (width, pairs, direction) = (self.x.width(), self.pairs, self.direction);
        let [mut cos, mut sin] = [&self.cos, &self.sin].map(|table| table.range(range.clone()));
        for x in self.x.range(range) {
            let (y, angles) = (y.row(width), [cos.row(), sin.row()]);
            match (self.style, direction) {
                (RopeStyle::Half, _) => {
                    turn::<C, T, U, Halves, Halves>(c, x, y, angles, pairs, direction);
                }
                (RopeStyle::Interleaved, _) => {
                    turn::<C, T, U, Neighbours, Neighbours>(c, x, y, angles, pairs, direction);
                }
                (RopeStyle::InterleavedToHalf, Direction::Forward) => {
                    turn::<C, T, U, Neighbours, Halves>(c, x, y, angles, pairs, direction);
                }
                (RopeStyle::InterleavedToHalf, Direction::Backward) => {
                    turn::<C, T, U, Halves, Neighbours>(c, x, y, angles, pairs, direction);
                }
            }
        }
    }
}

/// Rotates the first `pairs` pairs of a head and copies the rest.
#[inline(always)]
pub(crate) fn turn<C: Context, T: Element, U: Element<Acc = T::Acc>, R: Places, W: Places>(
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
pub(crate) trait Unrotated<A: Real, C: Context> {
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
pub(crate) struct Rotated<'a, A: Real, C: Context, U, H> {
    head: H,
    cos: [&'a [U]; 2],
    sin: [&'a [U]; 2],
    sign: C::Of<A>,
    c: C,
}

impl<'a, A: Real, C: Context, U, H> Rotated<'a, A, C, U, H> {
    #[inline(always)]
    pub(crate) fn new(
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

#[cfg(test)]
mod tests;
