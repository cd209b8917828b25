//! The experts of a mixture.
//!
//! Rows are sorted by expert once. A task takes some rows of one expert through the whole computation: it
//! gathers them, and the intermediate results between the products stay in the cache. Results are written by
//! row and summed by token, in the order of the token's choices. They don't depend on the order of the
//! tasks, and the tasks depend only on sizes.

mod backward;
mod forward;
mod rows;
mod sums;
#[cfg(test)]
mod tests;
mod unit;

pub use backward::RowGradients;

use super::in_place::{matrices, vectors};
use super::{Groups, numbers};
use crate::keys::{Activation, ExpertLayout, Projections};
use crate::product::Matrix;
use crate::{Element, Values, View as Strided, with_type};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The indices of the groups of weights. The groups of biases follow in the same order.
pub const GATE: usize = 0;
/// The index of the weights of up, which is empty if [`GATE`] has both.
pub const UP: usize = 1;
/// The index of the weights of down.
pub const DOWN: usize = 2;
/// The index of the first group of biases.
pub const BIASES: usize = 3;

/// The operands.
#[derive(Clone, Debug)]
pub struct Operands<'a> {
    /// The tokens, `[T, H]`, contiguous.
    pub x: Strided<'a>,
    /// The routing weights, `[T, k]`, contiguous, in the type of the tokens or in f32.
    pub routing: Strided<'a>,
    /// The slots of the tokens, `k` of each, sorted by expert.
    pub groups: &'a Groups,
    /// The weights in six groups: gate (with up, if packed), up, down, and their biases. A group is empty, or has one
    /// stacked tensor or one for each expert. The strides of weights are positive.
    pub weights: Vec<Vec<Strided<'a>>>,
    /// The variant to compute.
    pub settings: Settings,
}

/// The variant to compute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The function applied to the gate.
    pub activation: Activation,
    /// The layout of gate and up in the projections of an expert.
    pub projections: Projections,
    /// The order of the axes of an expert's weights.
    pub layout: ExpertLayout,
    /// The limit of the clamp of gate and up, if there is one.
    pub limit: Option<f64>,
    /// The constant that is added to up.
    pub up_offset: f64,
}

/// The results of the forward pass.
#[derive(Clone, Debug)]
pub struct Found {
    /// The result, `[T, H]`.
    pub y: Values,
    /// Gate and up of every routed token, in the order of the experts, `[R, 2I]`, if they are kept.
    pub kept: Option<Values>,
}

/// The flags of the wanted gradients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// True if the gradient of the tokens is wanted.
    pub x: bool,
    /// True if the gradient of the routing weights is wanted.
    pub routing: bool,
    /// One flag for each weight tensor, in the groups of the weights. True if the gradient is wanted.
    pub weights: Vec<Vec<bool>>,
}

/// The gradients. Those that are not wanted are `None`.
#[derive(Clone, Debug)]
pub struct Gradients {
    /// The gradient of the tokens, `[T, H]`.
    pub x: Option<Values>,
    /// The gradient of the routing weights, `[T, k]`, in their type.
    pub routing: Option<Values>,
    /// The gradients of the weights, grouped as the weights.
    pub weights: Vec<Vec<Option<Values>>>,
}

/// Returns the result, and gate and up if `keep`.
///
/// # Panics
/// Panics if sizes or types don't go together, or if a tensor can't be read in place.
pub fn forward(operands: &Operands<'_>, keep: bool) -> Found {
    with_type!(operands.x.dtype(), T => forward::forward(&View::<T>::new(operands), keep))
}

/// Computes the wanted gradients by row, from that of the result, `dy`, and from what the forward pass kept, both contiguous.
/// The kept tensor is not needed after that.
///
/// # Panics
/// Panics under the conditions of [`forward`](forward()), or if there are more or fewer flags than weights.
pub fn backward<'a>(
    operands: &Operands<'a>,
    dy: &Strided<'_>,
    kept: &Strided<'_>,
    wanted: &Wanted,
) -> RowGradients<'a> {
    let flags = wanted.weights.iter().map(Vec::len);
    assert!(
        flags.eq(operands.weights.iter().map(Vec::len)),
        "experts: there is not one flag for each weight whose gradient may be wanted"
    );
    with_type!(operands.x.dtype(), T => {
        let (view, routing) = (View::<T>::new(operands), operands.routing.dtype());
        backward::backward(view, routing, [dy, kept], wanted)
    })
}

/// The place of the features of gate (0) or up (1) in their weight.
#[derive(Clone, Copy)]
struct Part {
    start: usize,
    step: usize,
}

fn part_of(projections: Projections, part: usize, width: usize) -> Part {
    match projections {
        Projections::Separate => Part { start: 0, step: 1 },
        Projections::Chunked => Part {
            start: part * width,
            step: 1,
        },
        Projections::Interleaved => Part {
            start: part,
            step: 2,
        },
    }
}

fn part_of_each<T>(matrices: Vec<Matrix<'_, T>>, part: Part, width: usize) -> Vec<Matrix<'_, T>> {
    matrices
        .into_iter()
        .map(|matrix| matrix.features(part.start, part.step, width))
        .collect()
}

/// The operands of a call by expert.
struct View<'a, T: Element> {
    /// The tokens, `[T, H]`, contiguous.
    x: &'a [T],
    /// The routing weights by slot.
    routing: Vec<T::Acc>,
    choices: usize,
    groups: &'a Groups,
    gate: Vec<Matrix<'a, T>>,
    up: Vec<Matrix<'a, T>>,
    down: Vec<Matrix<'a, T>>,
    biases: Option<Biases<T::Acc>>,
    tokens: usize,
    /// `H`, the width of a token.
    hidden: usize,
    /// `I`, the width of an expert.
    width: usize,
    settings: Settings,
}

impl<'a, T: Element> View<'a, T> {
    /// # Panics
    /// Panics if sizes or types don't go together, or if a tensor can't be read in place.
    fn new(operands: &Operands<'a>) -> Self {
        let Operands {
            x,
            routing,
            groups,
            weights,
            settings,
        } = operands;
        let (&[tokens, hidden], &[routed, choices]) = (x.sizes(), routing.sizes()) else {
            panic!(
                "experts: tokens of sizes {:?} are not routed by weights of {:?}",
                x.sizes(),
                routing.sizes()
            )
        };
        let slots = groups.rows().len();
        assert!(
            routed == tokens && tokens.checked_mul(choices) == Some(slots),
            "experts: {tokens} tokens have {choices} weights each of {routed}, and {slots} choices"
        );
        assert!(
            weights.len() == 2 * BIASES,
            "experts: there are {} groups of weights and biases, not {}",
            weights.len(),
            2 * BIASES
        );
        let of = |group: usize| matrices::<T>(&weights[group], settings.layout);
        let (gate, down) = (of(GATE), of(DOWN));
        let width = down.first().map_or(0, |down| down.inputs);
        let features = width.checked_mul(parts(settings.projections));
        let features = features.filter(|_| width.checked_mul(2 * slots.max(1)).is_some());
        let features = features.unwrap_or_else(|| panic!("experts: {width} elements are too many"));
        let experts = groups.experts();
        check("gate", &gate, [experts, hidden, features]);
        check("down", &down, [experts, width, hidden]);
        let up = match settings.projections {
            Projections::Separate => {
                let up = of(UP);
                check("up", &up, [experts, hidden, width]);
                up
            }
            Projections::Chunked | Projections::Interleaved => {
                assert!(
                    weights[UP].is_empty(),
                    "experts: up is not with the gate, but by itself"
                );
                gate.clone()
            }
        };
        let [first, second] = [0, 1].map(|part| part_of(settings.projections, part, width));
        Self {
            x: x.contiguous(),
            routing: numbers::load::<T>(routing),
            choices,
            groups,
            gate: part_of_each(gate, first, width),
            up: part_of_each(up, second, width),
            down,
            biases: Biases::new::<T>(
                &weights[BIASES..],
                settings.projections,
                [experts, width, hidden],
            ),
            tokens,
            hidden,
            width,
            settings: *settings,
        }
    }
}

/// Checks that there is a matrix of `inputs` and `features` for each expert.
///
/// # Panics
/// Panics if there are others.
fn check<T>(what: &str, matrices: &[Matrix<'_, T>], [experts, inputs, features]: [usize; 3]) {
    let fits = |matrix: &Matrix<'_, T>| (matrix.inputs, matrix.features) == (inputs, features);
    assert!(
        matrices.len() == experts && matrices.iter().all(fits),
        "experts: the weights of {what} are not {experts} of {inputs} inputs and {features} features"
    );
}

/// Returns the number of parts of gate's tensor.
fn parts(projections: Projections) -> usize {
    match projections {
        Projections::Separate => 1,
        Projections::Chunked | Projections::Interleaved => 2,
    }
}

/// The biases of each expert.
struct Biases<A> {
    gate: Vec<Vec<A>>,
    up: Vec<Vec<A>>,
    down: Vec<Vec<A>>,
}

impl<A: Copy> Biases<A> {
    /// Returns the biases of three groups, or `None` if these are empty.
    ///
    /// # Panics
    /// Panics if there are biases of some projections only, or if they have other sizes than these have features.
    fn new<T: Element<Acc = A>>(
        groups: &[Vec<Strided<'_>>],
        projections: Projections,
        [experts, width, hidden]: [usize; 3],
    ) -> Option<Self> {
        if groups.iter().all(Vec::is_empty) {
            return None;
        }
        let of = |group: usize, features: usize| {
            let biases = vectors::<T>(&groups[group]);
            assert!(
                biases.len() == experts && biases.iter().all(|bias| bias.len() == features),
                "experts: biases are not {experts} of {features} features"
            );
            biases
        };
        let (both, down) = (of(GATE, width * parts(projections)), of(DOWN, hidden));
        let part = |of: &[Vec<A>], part| -> Vec<Vec<A>> {
            let Part { start, step } = part_of(projections, part, width);
            of.iter()
                .map(|bias| {
                    let values = bias.iter().skip(start).step_by(step);
                    values.take(width).copied().collect()
                })
                .collect()
        };
        let up = match projections {
            Projections::Separate => of(UP, width),
            Projections::Chunked | Projections::Interleaved => {
                assert!(
                    groups[UP].is_empty(),
                    "experts: the bias of up is not with that of the gate, but by itself"
                );
                part(&both, 1)
            }
        };
        Some(Self {
            gate: part(&both, 0),
            up,
            down,
        })
    }
}

/// Splits the rows of `range` into parts of nearly equal size, at most `most` rows each.
fn chunks(range: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = range.len().div_ceil(most);
    (0..parts).map(move |part| {
        let at = |part: usize| range.start + range.len() * part / parts;
        at(part)..at(part + 1)
    })
}

/// Returns whether rows are so large a part of all rows that threads share their products. With fewer rows, there
/// are enough other tasks. The answer depends only on sizes, because it may affect results.
fn spread(rows: usize, all: usize) -> bool {
    rows * 8 > all
}
