//! The norm without a gate, in blocks of sixteen elements.

use super::{Axis, RowOperands};
use crate::keys::Rounding;
use crate::{
    Blocks, Context, Element, LANES, Lanes, Number, Read, Row, Terms, Whole, block, sum_of_terms,
};

/// Writes `y = x̂ · g + b`, of which the bias may be missing, and returns `rstd`.
#[inline(always)]
pub(super) fn forward<C: Context, T: Element>(
    RowOperands { x, gain, c }: RowOperands<'_, T, C>,
    axis: &Axis<T>,
    bias: Option<&[T::Acc]>,
    y: Row<'_, T>,
) -> T::Acc {
    let r = rstd(c, x, axis);
    match bias {
        None => scale(c, x, r, gain, axis.rounding, y),
        Some(bias) => {
            let scaled = Scaled::<T, C> {
                x,
                gain,
                rstd: C::Of::splat(c, r),
                c,
                rounding: axis.rounding,
            };
            let _ = y.write_blocks(&Shifted { scaled, bias });
        }
    }
    r
}

/// Writes the gradient of the row, to which `before`, one by other operations, is added. Adds to the gradient of the
/// weight, if it is wanted.
#[inline(always)]
pub(crate) fn backward<C: Context, T: Element>(
    dy: &[T],
    RowOperands { x, gain, c }: RowOperands<'_, T, C>,
    r: T::Acc,
    axis: &Axis<T>,
    before: Option<&[T]>,
    dx: Row<'_, T>,
    dw: Option<&mut [T::Acc]>,
) {
    let given = Given { dy, x, gain, c };
    let [projection] = sum_of_terms(c, x.len(), &given);
    let along = axis.along(projection, r);
    let slopes = Slopes {
        given,
        r: C::Of::splat(c, r),
        along: C::Of::splat(c, along),
    };
    match before {
        Some(before) => dx.write_blocks(&Added { slopes, before }),
        None => dx.write_blocks(&slopes),
    };
    if let Some(dw) = dw {
        given.add_to(dw, r);
    }
}

/// Returns `rstd` of a row.
#[inline(always)]
pub(crate) fn rstd<C: Context, T: Element>(c: C, x: &[T], axis: &Axis<T>) -> T::Acc {
    axis.rstd(squares(c, x))
}

/// Returns the sum of the squares of a row.
#[inline(always)]
pub(crate) fn squares<C: Context, T: Element>(c: C, x: &[T]) -> T::Acc {
    let [sum] = sum_of_terms(c, x.len(), &Squares { x, c });
    sum
}

/// The squares of a row.
struct Squares<'a, T, C> {
    x: &'a [T],
    c: C,
}

impl<T: Element, C: Context> Terms<T::Acc, C, 1> for Squares<'_, T, C> {
    #[inline(always)]
    fn add<R: Read>(&self, at: usize, [sum]: [C::Of<T::Acc>; 1]) -> [C::Of<T::Acc>; 1] {
        let x = block::<C, T, R>(self.c, self.x, at);
        [x.mul_add(x, sum)]
    }
}

/// Writes `x · rstd · gain`.
#[inline(always)]
pub(crate) fn scale<C: Context, T: Element>(
    c: C,
    x: &[T],
    rstd: T::Acc,
    gain: &[T::Acc],
    rounding: Rounding,
    y: Row<'_, T>,
) {
    y.write_blocks(&Scaled::<T, C> {
        x,
        gain,
        rstd: C::Of::splat(c, rstd),
        c,
        rounding,
    });
}

struct Scaled<'a, T: Element, C: Context> {
    x: &'a [T],
    gain: &'a [T::Acc],
    rstd: C::Of<T::Acc>,
    c: C,
    rounding: Rounding,
}

impl<T: Element, C: Context> Scaled<'_, T, C> {
    #[inline(always)]
    fn lanes<B: Read>(&self, at: usize) -> C::Of<T::Acc> {
        let x = block::<C, T, B>(self.c, self.x, at);
        let gain = C::Of::<T::Acc>::read(self.c, &B::block(self.gain, at));
        self.rounding.lanes::<C, T>(self.c, x * self.rstd) * gain
    }
}

impl<T: Element, C: Context> Blocks<T> for Scaled<'_, T, C> {
    #[inline(always)]
    fn at<B: Read>(&self, at: usize) -> [T; LANES] {
        T::rounded(self.c, self.lanes::<B>(at))
    }
}

/// The scaled values of a row and a bias.
struct Shifted<'a, T: Element, C: Context> {
    scaled: Scaled<'a, T, C>,
    bias: &'a [T::Acc],
}

impl<T: Element, C: Context> Blocks<T> for Shifted<'_, T, C> {
    #[inline(always)]
    fn at<B: Read>(&self, at: usize) -> [T; LANES] {
        let (c, scaled) = (self.scaled.c, self.scaled.lanes::<B>(at));
        let bias = C::Of::<T::Acc>::read(c, &B::block(self.bias, at));
        T::rounded(c, self.scaled.rounding.lanes::<C, T>(c, scaled) + bias)
    }
}

/// The inputs of a row's gradients.
#[derive(Clone, Copy)]
struct Given<'a, T: Element, C> {
    dy: &'a [T],
    x: &'a [T],
    gain: &'a [T::Acc],
    c: C,
}

impl<T: Element, C: Context> Given<'_, T, C> {
    /// Returns a block of `dy` and `x`.
    #[inline(always)]
    fn read<B: Read>(&self, at: usize) -> [C::Of<T::Acc>; 2] {
        [
            block::<C, T, B>(self.c, self.dy, at),
            block::<C, T, B>(self.c, self.x, at),
        ]
    }

    #[inline(always)]
    fn gain<B: Read>(&self, at: usize) -> C::Of<T::Acc> {
        C::Of::<T::Acc>::read(self.c, &B::block(self.gain, at))
    }

    /// Adds the row's `dy · x · rstd` to the gradient of the weight.
    #[inline(always)]
    fn add_to(&self, dw: &mut [T::Acc], rstd: T::Acc) {
        let r = C::Of::<T::Acc>::splat(self.c, rstd);
        let (blocks, rest) = dw.as_chunks_mut::<LANES>();
        for (at, dw) in blocks.iter_mut().enumerate() {
            let [dy, x] = self.read::<Whole>(at);
            *dw = dy
                .mul_add(x * r, C::Of::<T::Acc>::read(self.c, dw))
                .values();
        }
        let start = blocks.len() * LANES;
        for (i, dw) in rest.iter_mut().enumerate() {
            *dw += self.dy[start + i].load() * (self.x[start + i].load() * rstd);
        }
    }
}

/// The projection `Σ dy · x · gain`.
impl<T: Element, C: Context> Terms<T::Acc, C, 1> for Given<'_, T, C> {
    #[inline(always)]
    fn add<B: Read>(&self, at: usize, [sum]: [C::Of<T::Acc>; 1]) -> [C::Of<T::Acc>; 1] {
        let [dy, x] = self.read::<B>(at);
        [(dy * self.gain::<B>(at)).mul_add(x, sum)]
    }
}

/// The gradients `rstd · (dy · gain − x · along)`.
struct Slopes<'a, T: Element, C: Context> {
    given: Given<'a, T, C>,
    r: C::Of<T::Acc>,
    along: C::Of<T::Acc>,
}

impl<T: Element, C: Context> Slopes<'_, T, C> {
    #[inline(always)]
    fn lanes<B: Read>(&self, at: usize) -> C::Of<T::Acc> {
        let [dy, x] = self.given.read::<B>(at);
        self.r * (dy * self.given.gain::<B>(at) - x * self.along)
    }
}

impl<T: Element, C: Context> Blocks<T> for Slopes<'_, T, C> {
    #[inline(always)]
    fn at<B: Read>(&self, at: usize) -> [T; LANES] {
        T::rounded(self.given.c, self.lanes::<B>(at))
    }
}

/// Gradients and those of other operations.
struct Added<'a, T: Element, C: Context> {
    slopes: Slopes<'a, T, C>,
    before: &'a [T],
}

impl<T: Element, C: Context> Blocks<T> for Added<'_, T, C> {
    #[inline(always)]
    fn at<B: Read>(&self, at: usize) -> [T; LANES] {
        let c = self.slopes.given.c;
        let before = block::<C, T, B>(c, self.before, at);
        T::rounded(c, self.slopes.lanes::<B>(at) + before)
    }
}
