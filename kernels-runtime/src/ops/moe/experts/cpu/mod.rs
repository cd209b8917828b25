//! The experts of a mixture on Flex.
//!
//! Rows are sorted by expert once. A task takes some rows of one expert through the whole computation: it
//! gathers them, and the intermediate results between the products stay in the cache. Results are written by
//! row and summed by token, in the order of the token's choices. They don't depend on the order of the
//! tasks, and the tasks depend only on sizes.

mod backward;
mod forward;
mod rows;
mod sums;
mod unit;

use super::super::in_place::Readable;
use super::super::integers;
use super::super::sort::Groups;
use super::operands::{BIASES, DOWN, GATE, UP};
use super::{Backward, ExpertsBackend, ExpertsKernel, Gradients, Settings, Tensors};
use crate::cpu::product::Matrix;
use crate::cpu::{BASE, Element, contiguous, dispatch_dtype};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::{MoeExpertsKey, Projections, SemanticsKey};
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use std::ops::Range;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: Launch::MoeExperts(super::launch),
    accepts: |key| matches!(key, SemanticsKey::MoeExperts(_)),
    ..BASE
};

impl ExpertsBackend for Flex {
    fn experts(operands: Tensors<Self>) -> FlexTensor {
        Self::experts_forward(operands, false).0
    }
}

impl ExpertsKernel for Flex {
    fn experts_forward(operands: Tensors<Self>, keep: bool) -> (FlexTensor, Option<FlexTensor>) {
        let shape = operands.x().layout().shape();
        if !keep && shape.num_elements() == 0 {
            // There may be more tokens without elements than there is memory for their choices.
            return (
                FlexTensor::empty(shape.clone(), checked(operands.dtype())),
                None,
            );
        }
        dispatch_dtype!(checked(operands.dtype()), T => {
            forward::forward(&Readables::<T>::new(&operands).view(), keep)
        })
    }

    fn experts_backward(backward: Backward<FlexTensor, FlexTensor>) -> Gradients<FlexTensor> {
        let (operands, dy, kept, wanted) = backward.into_parts();
        dispatch_dtype!(checked(operands.dtype()), T => {
            let readables = Readables::<T>::new(&operands);
            let given = backward::Given {
                weights: operands.weights(),
                dy: &dy,
                routing: operands.routing().dtype(),
                wanted: &wanted,
            };
            backward::backward(&readables.view(), &given, kept)
        })
    }
}

/// The operands of a call, converted so that they can be read.
struct Readables<'a, T: Element> {
    x: FlexTensor,
    routing: Vec<T::Acc>,
    choices: usize,
    groups: Groups,
    weights: Vec<Readable<'a>>,
    settings: Settings,
}

impl<'a, T: Element> Readables<'a, T> {
    fn new(operands: &'a Tensors<Flex>) -> Self {
        let (indices, routing) = (operands.indices(), operands.routing());
        let settings = operands.settings();
        let weights = operands.weights().iter();
        let weights: Vec<_> = weights.map(|group| Readable::new(group)).collect();
        let experts = weights[DOWN].matrices::<T>(settings.key.layout).len();
        Self {
            x: operands.x().to_contiguous(),
            routing: dispatch_dtype!(routing.dtype(), R => numbers::<R, T>(routing)),
            choices: indices.layout().shape()[1],
            groups: integers::sort(indices, experts),
            weights,
            settings,
        }
    }

    fn view(&self) -> View<'_, T> {
        let MoeExpertsKey {
            layout,
            projections,
            ..
        } = self.settings.key;
        let down = self.weights[DOWN].matrices(layout);
        let [tokens, hidden] = [0, 1].map(|axis| self.x.layout().shape()[axis]);
        let width = down.first().map_or(0, |down: &Matrix<'_, T>| down.inputs);
        let [first, second] = [0, 1].map(|part| part_of(projections, part, width));
        let gate = self.weights[GATE].matrices(layout);
        let up = match projections {
            Projections::Separate => self.weights[UP].matrices(layout),
            Projections::Chunked | Projections::Interleaved => gate.clone(),
        };
        View {
            x: contiguous(&self.x),
            routing: &self.routing,
            choices: self.choices,
            groups: &self.groups,
            gate: part_of_each(gate, first, width),
            up: part_of_each(up, second, width),
            down,
            biases: Biases::new::<T>(&self.weights, projections, width),
            tokens,
            hidden,
            width,
            settings: self.settings,
        }
    }
}

/// Returns the elements of a tensor of another type, such as f32 beside bf16.
fn numbers<R: Element, T: Element>(tensor: &FlexTensor) -> Vec<T::Acc> {
    use burn::tensor::ElementConversion;
    contiguous::<R>(&tensor.to_contiguous())
        .iter()
        .map(|value| value.load().elem())
        .collect()
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
    routing: &'a [T::Acc],
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

/// The biases of each expert.
struct Biases<A> {
    gate: Vec<Vec<A>>,
    up: Vec<Vec<A>>,
    down: Vec<Vec<A>>,
}

impl<A: Copy> Biases<A> {
    fn new<T: Element<Acc = A>>(
        weights: &[Readable<'_>],
        projections: Projections,
        width: usize,
    ) -> Option<Self> {
        let down = weights[BIASES + DOWN].vectors::<T>();
        if down.is_empty() {
            return None;
        }
        let both = weights[BIASES + GATE].vectors::<T>();
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
            Projections::Separate => weights[BIASES + UP].vectors::<T>(),
            Projections::Chunked | Projections::Interleaved => part(&both, 1),
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
