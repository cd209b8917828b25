//! The norm and rotation of queries or keys: one pass over the heads, each normalised and rotated while it is in the
//! first-level cache. A norm over all heads of a token whose result is `[batch, heads, seq, width]` first reads the tokens
//! for `rstd`, because the heads of a token are far apart in the result.

mod backward;
mod forward;

use crate::keys::{Gating, HeadLayout, RopeStyle, Rounding};
use crate::rms_norm::{self, Axis};
use crate::rope::{self, Angles, Tokens, four_axes};
use crate::{Element, Values, View, with_type};

/// The variant of the norm and rotation, and its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The number that is added to the mean square.
    pub eps: f64,
    /// The constant that is added to the weight before it scales.
    pub offset: f64,
    /// The rounding of the norm in half types.
    pub rounding: Rounding,
    /// True if all heads of a token are normalised together, false if each is normalised alone.
    pub together: bool,
    /// The rotation. Its layout is that of the result. Its pairs stay where they are: no kernel exists for
    /// [`RopeStyle::InterleavedToHalf`].
    pub rotation: rope::Settings,
}

/// The operands.
#[derive(Clone, Debug)]
pub struct Operands<'a> {
    /// The tensor, `[b, s, heads, d]`, with contiguous rows. If heads are normalised together, those of a token are
    /// neighbours.
    pub x: View<'a>,
    /// The weight of the norm, `[d]` or, of all heads together, `[heads · d]`, contiguous, if there is one.
    pub weight: Option<View<'a>>,
    /// The cosines, `[1 or b, s, w]`, with contiguous rows, in the type of `x` or, for half types, in f32. They rotate at
    /// most `d` elements of a head. The others are normalised only.
    pub cos: View<'a>,
    /// The sines, of the sizes and the type of the cosines but for the first axis, with contiguous rows.
    pub sin: View<'a>,
    /// The variant and the numbers.
    pub settings: Settings,
}

/// The gradients.
#[derive(Clone, Debug)]
pub struct Gradients {
    /// The gradient of `x`, `[b, s, heads, d]`.
    pub x: Values,
    /// The gradient of the weight, if it is wanted.
    pub weight: Option<Values>,
}

/// Returns the result, `[b, heads, s, d]` or `[b, s, heads, d]` as the settings say.
///
/// # Panics
/// Panics if sizes, types or settings don't go together, or if a tensor can't be read in place.
pub fn forward(operands: &Operands<'_>) -> Values {
    let dtype = operands.x.dtype();
    with_type!(dtype, T => match operands.cos.dtype() == dtype {
        true => forward::run::<T, T>(operands),
        false => forward::run::<T, <T as Element>::Acc>(operands),
    })
}

/// Returns the gradients, from `dy`, the gradient of the result, which has its sizes and contiguous rows. That of the
/// weight is computed if it is wanted.
///
/// # Panics
/// Panics under the conditions of [`forward`](forward()), or if the gradient of a missing weight is wanted.
pub fn backward(operands: &Operands<'_>, dy: &View<'_>, wants_weight: bool) -> Gradients {
    assert!(
        operands.weight.is_some() || !wants_weight,
        "the gradient of a weight is wanted that the norm does not have"
    );
    let dtype = operands.x.dtype();
    with_type!(dtype, T => match operands.cos.dtype() == dtype {
        true => backward::run::<T, T>(operands, dy, wants_weight),
        false => backward::run::<T, <T as Element>::Acc>(operands, dy, wants_weight),
    })
}

/// The operands as kernels read them.
struct Parts<'a, T: Element, U> {
    /// The rows that are normalised, each of one head or of all heads of a token.
    rows: View<'a>,
    axis: Axis<T>,
    cos: Angles<'a, U>,
    sin: Angles<'a, U>,
    order: Order,
}

/// The order of pairs, in the operand and in the result. Rows ask for it, so that kernels are compiled once for both.
#[derive(Clone, Copy)]
enum Order {
    Halves,
    Neighbours,
}

impl<'a, T: Element, U: Element<Acc = T::Acc>> Parts<'a, T, U> {
    fn new(operands: &Operands<'a>) -> Self {
        let Operands {
            x,
            weight,
            cos,
            sin,
            settings,
        } = operands;
        let order = match settings.rotation.style {
            RopeStyle::Half => Order::Halves,
            RopeStyle::Interleaved => Order::Neighbours,
            RopeStyle::InterleavedToHalf => {
                panic!("a norm and a rotation that moves pairs have no kernel in common")
            }
        };
        let tokens = Tokens::of(four_axes(x), HeadLayout::Bsnd);
        let [cos, sin] = Angles::both([cos, sin], tokens, settings.rotation);
        let rows = match settings.together {
            true => of_tokens(x),
            false => x.clone(),
        };
        let norm = rms_norm::Settings {
            eps: settings.eps,
            group_size: None,
            offset: settings.offset,
            rounding: settings.rounding,
            gating: Gating::None,
        };
        Self {
            axis: Axis::new(&rows, weight.as_ref(), &norm),
            rows,
            cos,
            sin,
            order,
        }
    }
}

/// Returns a tensor `[b, s, heads, d]` as `[b, s, heads · d]`.
///
/// # Panics
/// Panics if the heads of a token are not neighbours.
fn of_tokens<'a>(x: &View<'a>) -> View<'a> {
    let [batch, seq, heads, width] = four_axes(x);
    let &[of_batch, of_seq, of_head, of_element] = x.strides() else {
        unreachable!("`View::new` counted the strides")
    };
    let one_by_one = match (heads, width) {
        (_, 1) => of_head,
        _ => of_element,
    };
    let next = of_element.saturating_mul(width as isize);
    assert!(
        x.len() == 0 || heads == 1 || width == 1 || of_head == next,
        "heads of {width} elements with a distance of {of_head} are not normalised together"
    );
    let all = heads.saturating_mul(width);
    x.under(&[batch, seq, all], &[of_batch, of_seq, one_by_one])
}

/// Returns the tensor with the axes of heads and positions exchanged, if the result has them in the other order.
fn placed<'a>(x: &View<'a>, layout: HeadLayout) -> View<'a> {
    let [first, second, third, fourth] = four_axes(x);
    let &[of_first, of_second, of_third, of_fourth] = x.strides() else {
        unreachable!("`View::new` counted the strides")
    };
    match layout {
        HeadLayout::Bsnd => x.clone(),
        HeadLayout::Bnsd => x.under(
            &[first, third, second, fourth],
            &[of_first, of_third, of_second, of_fourth],
        ),
    }
}

#[cfg(test)]
mod tests;
