//! The cross-entropy of hidden states and output weights: the logits of some tokens at a time.
//!
//! Ignored tokens are left out. The logits of a chunk of the others are computed by groups of classes, some classes at a
//! time while they stay in the cache, and the maximum and sum of these at once. The losses of the chunk are known after
//! that. Where gradients are wanted, the logits are kept until then. Each group then computes their gradient, adds to its
//! own part of the weight's gradient, or keeps the gradient of the logits for that, and sums its own share of the gradient
//! of the hidden states. The shares are added in the order of the groups. Chunks and groups depend only on the shape, so
//! results don't depend on the number of threads.
//!
//! A weight in quantised form is decoded a few classes at a time, once for the logits of a chunk and once for their
//! gradient.

pub(crate) mod block;
pub(crate) mod chunks;
mod factors;
pub(crate) mod group;
mod quantised;
mod scale;
mod sizes;

pub use factors::{WithFactors, are_smaller};
pub use quantised::of_quantised;
pub use scale::{multiply, scaled, scaled_rows};
pub use sizes::Sizes;

use crate::cross_entropy::{Factors, Settings, Targets, reduce};
use crate::keys::{LossReduction, OutputLayout};
use crate::product::Gemm;
use crate::{Element, Real, Values, View, with_type};
use chunks::{Found, run};
use kernels_quant::QuantizedWeight;
use serde::{Deserialize, Serialize};

/// The operands.
#[derive(Clone, Debug)]
pub struct Operands<'a> {
    /// The hidden states, `[tokens, width]`, contiguous.
    pub hidden: View<'a>,
    /// The weight of the output layer.
    pub weight: Weight<'a>,
    /// The bias, `[classes]`, contiguous.
    pub bias: Option<View<'a>>,
    /// The class of each token, `None` for ignored tokens.
    pub targets: &'a [Option<usize>],
    /// The numbers of the loss.
    pub settings: Settings,
    /// The combination of the losses of all tokens.
    pub reduction: LossReduction,
}

/// The weight of the output layer.
#[derive(Clone, Debug)]
pub enum Weight<'a> {
    /// Floats, of which one axis is contiguous, and the order of the axes.
    Floats(View<'a>, OutputLayout),
    /// A weight `[classes, width]` in quantised form, which has no gradient.
    Quantised(&'a QuantizedWeight<'a>),
}

impl Weight<'_> {
    /// Returns the number of classes and the width.
    ///
    /// # Panics
    /// Panics if the weight is not a matrix.
    fn sizes(&self) -> [usize; 2] {
        match self {
            Self::Quantised(weight) => weight.shape(),
            Self::Floats(weight, layout) => match (weight.sizes(), layout) {
                (&[classes, width], OutputLayout::OutputMajor) => [classes, width],
                (&[width, classes], OutputLayout::InputMajor) => [classes, width],
                (sizes, _) => panic!("a weight of sizes {sizes:?} is not a matrix"),
            },
        }
    }
}

/// The gradients that are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// True if the gradient of the hidden states is wanted.
    pub hidden: bool,
    /// True if the gradient of the weight is wanted.
    pub weight: bool,
    /// True if the gradient of the bias is wanted.
    pub bias: bool,
}

impl Wanted {
    /// Returns true if a gradient is wanted.
    pub fn any(self) -> bool {
        self.hidden || self.weight || self.bias
    }
}

/// The gradients. Those that are not wanted are `None`.
#[derive(Clone, Debug)]
pub struct Gradients<T = Values> {
    /// The gradient of the hidden states, `[tokens, width]`.
    pub hidden: Option<T>,
    /// The gradient of the weight, `[classes, width]`, whatever its layout.
    pub weight: Option<T>,
    /// The gradient of the bias, `[classes]`.
    pub bias: Option<T>,
}

impl<T> Gradients<T> {
    fn map<U>(self, mut each: impl FnMut(T) -> U) -> Gradients<U> {
        Gradients {
            hidden: self.hidden.map(&mut each),
            weight: self.weight.map(&mut each),
            bias: self.bias.map(&mut each),
        }
    }
}

/// Returns the loss and the wanted gradients, all in the type that they are computed in: f32, or f64 for f64. The gradient
/// of the loss, or of each token's, is taken to be 1.
///
/// # Panics
/// Panics if sizes or types don't go together, if a target is not a class, or if a tensor can't be read in place.
pub fn forward(operands: &Operands<'_>, wanted: Wanted) -> (Values, Gradients) {
    with_type!(operands.hidden.dtype(), T => forward_in::<T>(&Checked::new(operands), wanted))
}

/// Returns the loss and the gradients of [`forward`], but the factors of the weight's gradient in place of it.
///
/// # Panics
/// Panics under the conditions of [`forward`].
pub fn forward_with_factors(operands: &Operands<'_>, wanted: Wanted) -> WithFactors {
    with_type!(operands.hidden.dtype(), T => {
        factors::forward::<T>(&Checked::new(operands), wanted)
    })
}

/// Returns the gradient of the weight, `[classes, width]`, from its factors: the gradient of the logits in rows of `block`
/// classes, and the hidden states of the tokens that have a class, `[counted, width]`. `dy` is the gradient of the loss.
///
/// # Panics
/// Panics if sizes or types don't go together.
pub fn weight(
    d_logits: &View<'_>,
    block: usize,
    classes: usize,
    hidden: &View<'_>,
    dy: &View<'_>,
) -> Values {
    with_type!(hidden.dtype(), T => {
        factors::weight::<T>(d_logits, (block, classes), hidden, dy)
    })
}

/// Returns the wanted gradients for the gradient of the loss, in the type of the operands. Computes the logits again.
///
/// # Panics
/// Panics under the conditions of [`forward`].
pub fn backward(operands: &Operands<'_>, dy: &View<'_>, wanted: Wanted) -> Gradients {
    with_type!(operands.hidden.dtype(), T => again::<T>(&Checked::new(operands), dy, wanted))
}

/// Operands that go together.
struct Checked<'a, 'b> {
    given: &'b Operands<'a>,
    sizes: Sizes,
    targets: Targets<'b>,
}

impl<'a, 'b> Checked<'a, 'b> {
    /// # Panics
    /// Panics if sizes or types don't go together.
    fn new(given: &'b Operands<'a>) -> Self {
        let &[tokens, width] = given.hidden.sizes() else {
            panic!(
                "hidden states of sizes {:?} are not rows",
                given.hidden.sizes()
            )
        };
        let [classes, inputs] = given.weight.sizes();
        let bias = given.bias.as_ref().map(View::sizes);
        assert!(
            inputs == width && bias.is_none_or(|bias| bias == [classes]),
            "hidden states of {width} elements, a weight of {inputs} and a bias of {bias:?} have no logits of {classes} classes"
        );
        Self {
            given,
            sizes: Sizes {
                tokens,
                width,
                classes,
            },
            targets: Targets::new(given.targets, [tokens, classes]),
        }
    }
}

/// Returns the loss and the gradients to keep.
fn forward_in<T: Element>(operands: &Checked<'_, '_>, kept: Wanted) -> (Values, Gradients)
where
    T::Acc: Gemm,
{
    let losses = match operands.given.reduction {
        LossReduction::None => operands.sizes.tokens,
        LossReduction::Mean | LossReduction::Sum => 1,
    };
    let ones = vec![<T::Acc as Real>::ONE; losses];
    let factors = kept
        .any()
        .then(|| Factors::new(&ones, operands.targets, operands.given.reduction));
    let found = run::<T>(operands, factors.as_ref(), kept, None);
    reduced::<T>(operands, found)
}

/// Returns the loss and the gradients.
fn reduced<T: Element>(operands: &Checked<'_, '_>, found: Found<T::Acc>) -> (Values, Gradients) {
    let Found { losses, gradients } = found;
    let counted = operands.targets.counted();
    let loss = reduce::<T::Acc>(losses, counted, operands.given.reduction);
    (loss, gradients.map(T::Acc::values))
}

/// Returns the gradients of losses that were not reduced.
fn again<T: Element>(operands: &Checked<'_, '_>, dy: &View<'_>, wanted: Wanted) -> Gradients
where
    T::Acc: Gemm,
{
    let dy = dy.contiguous::<T::Acc>();
    let factors = Factors::new(dy, operands.targets, operands.given.reduction);
    let found = run::<T>(operands, Some(&factors), wanted, None);
    found.gradients.map(scale::rounded::<T>)
}
