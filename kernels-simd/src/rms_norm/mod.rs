//! RMSNorm over the last axis, `y = x̂ · (offset + w) + bias` with `x̂ = x · rstd` and `rstd = 1 / sqrt(mean(x²) + eps)`, and of
//! the sum of a tensor and a residual: one pass over each row while it is in the first-level cache. Without groups, a
//! row is the last axis. With groups, each group is a row.

mod gated;
mod pass;
pub(crate) mod without;

pub(crate) use pass::RowOperands;

use crate::keys::{Gating, Rounding};
use crate::{Context, Element, Real, Rows, Values, View, with_type};
use std::ops::Range;

/// The variant of a norm and its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The number that is added to the mean square.
    pub eps: f64,
    /// The number of elements over which each mean is taken, a divisor of `n`. `None` if it is the whole axis.
    pub group_size: Option<usize>,
    /// The constant that is added to the weight before it scales.
    pub offset: f64,
    /// The rounding of results in half types.
    pub rounding: Rounding,
    /// The place of the gate.
    pub gating: Gating,
}

/// The operands, all of one type.
#[derive(Clone, Debug)]
pub struct Operands<'a> {
    /// The tensor to normalise, `[.., n]`, with contiguous rows.
    pub x: View<'a>,
    /// The weight, `[n]`, contiguous, if there is one.
    pub weight: Option<View<'a>>,
    /// The gate, with the sizes of `x` and contiguous rows. Present exactly if the settings have a place for it.
    pub gate: Option<View<'a>>,
    /// The bias, `[n]`, contiguous, if there is one. Only without a gate.
    pub bias: Option<View<'a>>,
    /// The variant and the numbers.
    pub settings: Settings,
}

/// The results of the forward pass.
#[derive(Clone, Debug)]
pub struct Normalised {
    /// The result, with the sizes of `x`.
    pub y: Values,
    /// `rstd`, one of each row or group that has elements, in f32, or in f64 for f64.
    pub rstd: Values,
    /// The sum of `x` and the residual, rounded to their type, if there is a residual.
    pub sum: Option<Values>,
}

/// The operands of a backward pass.
#[derive(Clone, Debug)]
pub struct Backward<'a> {
    /// The operands of the forward pass. With a residual, `x` is the sum.
    pub operands: Operands<'a>,
    /// The gradient of the result, with the sizes of `x` and contiguous rows.
    pub dy: View<'a>,
    /// `rstd` from the forward pass, contiguous.
    pub rstd: View<'a>,
    /// A gradient of `x` by other operations, with its sizes and contiguous rows, which is added to that of `x`. Only
    /// without a gate.
    pub before: Option<View<'a>>,
    /// True if the gradient of the weight is wanted.
    pub wants_weight: bool,
    /// True if the gradient of the bias is wanted.
    pub wants_bias: bool,
}

/// The gradients.
#[derive(Clone, Debug)]
pub struct Gradients {
    /// The gradient of `x`.
    pub x: Values,
    /// The gradient of the weight, if it is wanted.
    pub weight: Option<Values>,
    /// The gradient of the gate, if there is one.
    pub gate: Option<Values>,
    /// The gradient of the bias, if it is wanted.
    pub bias: Option<Values>,
}

/// Normalises `x`, or the sum of `x` and a residual, which has the sizes of `x` and contiguous rows.
///
/// # Panics
/// Panics if sizes, types or settings don't go together, or if a tensor can't be read in place.
pub fn forward(operands: &Operands<'_>, residual: Option<&View<'_>>) -> Normalised {
    operands.check();
    if let Some(residual) = residual {
        residual.must_be_like(&operands.x);
    }
    with_type!(operands.x.dtype(), T => pass::forward::<T>(operands, residual))
}

/// Returns the gradients.
///
/// # Panics
/// Panics under the conditions of [`forward`](forward()), if there is both a gate and a gradient to add to, or if the
/// gradient of a missing weight or bias is wanted.
pub fn backward(given: &Backward<'_>) -> Gradients {
    let Operands {
        x, weight, gate, ..
    } = &given.operands;
    given.operands.check();
    given.dy.must_be_like(x);
    if let Some(before) = &given.before {
        before.must_be_like(x);
    }
    assert!(
        given.before.is_none() || gate.is_none(),
        "the gradient of a gated norm is not added to another one"
    );
    assert!(
        weight.is_some() || !given.wants_weight,
        "the gradient of a weight is wanted that the norm does not have"
    );
    assert!(
        given.operands.bias.is_some() || !given.wants_bias,
        "the gradient of a bias is wanted that the norm does not have"
    );
    with_type!(x.dtype(), T => pass::backward::<T>(given))
}

impl Operands<'_> {
    /// # Panics
    /// Panics if the gate or the bias does not go with `x` and the settings.
    fn check(&self) {
        let gating = self.settings.gating;
        assert!(
            self.gate.is_some() == (gating != Gating::None),
            "a norm whose gate is {gating:?} has {} gate",
            if self.gate.is_some() { "a" } else { "no" }
        );
        if let Some(gate) = &self.gate {
            gate.must_be_like(&self.x);
        }
        if let Some(bias) = &self.bias {
            let n = self.x.sizes().last().copied();
            assert!(
                n.is_some_and(|n| bias.sizes() == [n]) && self.gate.is_none(),
                "a bias of sizes {:?} does not go with an axis of {n:?} elements, or with a gate",
                bias.sizes()
            );
        }
    }
}

impl Rounding {
    /// Returns a value between `x̂` and the result as it is held there.
    #[inline(always)]
    fn step<T: Element>(self, value: T::Acc) -> T::Acc {
        match self {
            Self::Llama => T::round(value).load(),
            Self::Gemma => value,
        }
    }

    /// Returns sixteen values as they are held there.
    #[inline(always)]
    pub(crate) fn lanes<C: Context, T: Element>(
        self,
        c: C,
        values: C::Of<T::Acc>,
    ) -> C::Of<T::Acc> {
        match self {
            Self::Llama => T::held(c, values),
            Self::Gemma => values,
        }
    }
}

/// The normalised axis: its division into rows, and the factors of its elements.
pub(crate) struct Axis<T: Element> {
    /// `offset + w` of every element in the accumulation precision. Without a weight, 1 for every
    /// element of a row, which changes nothing.
    pub(crate) gain: Vec<T::Acc>,
    /// The number of elements of a row.
    pub(crate) width: usize,
    groups: usize,
    eps: T::Acc,
    pub(crate) rounding: Rounding,
    gating: Gating,
}

impl<T: Element> Axis<T> {
    /// Makes it of the last axis of a tensor.
    ///
    /// # Panics
    /// Panics without an axis, if the groups don't divide it, or if the weight does not go with it.
    pub(crate) fn new(x: &View<'_>, weight: Option<&View<'_>>, settings: &Settings) -> Self {
        let Some(n) = x.sizes().last().copied() else {
            panic!("a tensor without axes is not normalised");
        };
        let width = settings.group_size.unwrap_or(n);
        assert!(
            n == 0 || n.checked_rem(width) == Some(0),
            "groups of {width} elements don't divide an axis of {n}"
        );
        // An axis without elements has no groups, and so no rows, however many there are of the other axes.
        let groups = n.checked_div(width).unwrap_or(0);
        let width = if groups == 0 { 0 } else { width };
        let gain = match weight {
            // Without elements, the axis alone says nothing of the memory that there is.
            None if x.len() == 0 => Vec::new(),
            None => vec![T::Acc::ONE; width],
            Some(weight) => {
                let offset = T::Acc::of(settings.offset);
                let weight = weight.contiguous::<T>();
                assert!(
                    weight.len() == n,
                    "a weight of {} elements is not one of an axis of {n}",
                    weight.len()
                );
                weight.iter().map(|w| offset + w.load()).collect()
            }
        };
        Self {
            gain,
            width,
            groups,
            eps: T::Acc::of(settings.eps),
            rounding: settings.rounding,
            gating: settings.gating,
        }
    }

    /// Returns the rows of a tensor whose last axis this is.
    pub(crate) fn rows<'a>(&self, tensor: &View<'a>) -> Rows<'a, T> {
        let (Some(stride), false) = (tensor.strides().last(), self.groups == 1) else {
            return Rows::of(tensor);
        };
        let (mut sizes, mut strides) = (tensor.sizes().to_vec(), tensor.strides().to_vec());
        let last = sizes.len() - 1;
        sizes[last] = self.groups;
        sizes.push(self.width);
        // Groups of elements in memory are there too: only those of an empty tensor may be too far away.
        strides[last] = stride.saturating_mul(self.width as isize);
        strides.push(*stride);
        Rows::of(&tensor.under(&sizes, &strides))
    }

    /// Returns the range of row number `row` in the gain and in the weight's gradient.
    #[inline(always)]
    pub(crate) fn of_row(&self, row: usize) -> Range<usize> {
        let start = (row * self.width) % self.gain.len().max(1);
        start..start + self.width
    }

    /// Returns `1 / sqrt(mean square + eps)`.
    #[inline(always)]
    pub(crate) fn rstd(&self, sum_of_squares: T::Acc) -> T::Acc {
        let mean_square = sum_of_squares / T::Acc::of(self.width as f64);
        T::Acc::ONE / (mean_square + self.eps).sqrt()
    }

    /// Returns the factor of an element in the part of its gradient that goes through `rstd`, given
    /// `Σ g·dy·x`. In this order, `rstd²` alone, which may underflow, is never formed.
    #[inline(always)]
    fn along(&self, projection: T::Acc, rstd: T::Acc) -> T::Acc {
        projection * rstd / T::Acc::of(self.width as f64) * rstd
    }
}

#[cfg(test)]
mod tests;
