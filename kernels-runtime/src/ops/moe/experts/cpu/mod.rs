//! The experts of a mixture on Flex.
//!
//! Rows are sorted by expert, once. A task takes some rows of one expert through all of it: it
//! gathers them, and what comes between the products stays in the cache. Results are written by
//! row and summed by token, in the order of the token's choices; so they depend on no order of
//! tasks, and the tasks on sizes alone.

mod backward;
mod forward;
mod rows;
mod sums;
mod unit;

use super::super::integers::read as ints;
use super::super::many::Many;
use super::super::product::Matrix;
use super::super::slabs::{Readable, contiguous};
use super::super::sort::Groups;
use super::autodiff::{ExpertsBackend, ExpertsKernel, Gradients};
use super::{Settings, Wanted};
use crate::cpu::{Element, dispatch_dtype};
use crate::dispatch::DeviceKind;
use crate::registry::{CapabilityRange, FloatType, Implementation, Launch};
use crate::semantics::{MoeKey, Projections, SemanticsKey};
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use std::ops::Range;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    device: DeviceKind::Cpu,
    name: "cpu-simd",
    dtypes: &FloatType::ALL,
    gradient: true,
    deterministic: true,
    fusion_barrier: false,
    capability: CapabilityRange::ANY,
    limits: None,
    launch: Launch::Moe(super::launch),
    accepts: |key| matches!(key, SemanticsKey::Moe(_)),
};

impl ExpertsBackend for Flex {
    fn experts(
        x: FlexTensor,
        indices: FlexTensor,
        routing: FlexTensor,
        weights: Many<Self>,
        settings: Settings,
    ) -> FlexTensor {
        Self::experts_forward(x, indices, routing, weights, settings, false).0
    }
}

impl ExpertsKernel for Flex {
    fn experts_forward(
        x: FlexTensor,
        indices: FlexTensor,
        routing: FlexTensor,
        weights: Many<Self>,
        settings: Settings,
        keep: bool,
    ) -> (FlexTensor, Option<FlexTensor>) {
        dispatch_dtype!(x.dtype(), T => {
            let operands = Operands::<T>::new(&x, &indices, &routing, &weights, settings);
            forward::forward(&operands.view(), keep)
        })
    }

    fn experts_backward(
        dy: FlexTensor,
        x: FlexTensor,
        indices: FlexTensor,
        routing: FlexTensor,
        weights: Many<Self>,
        kept: FlexTensor,
        settings: Settings,
        wanted: Wanted,
    ) -> Gradients<Self> {
        dispatch_dtype!(x.dtype(), T => {
            let operands = Operands::<T>::new(&x, &indices, &routing, &weights, settings);
            let dtype = routing.dtype();
            backward::backward(&operands.view(), &weights, &dy, &kept, dtype, &wanted)
        })
    }
}

/// The operands of a call as they can be read.
struct Operands<'a, T: Element> {
    x: FlexTensor,
    routing: Vec<T::Acc>,
    choices: usize,
    groups: Groups,
    weights: Vec<Readable<'a>>,
    settings: Settings,
}

impl<'a, T: Element> Operands<'a, T> {
    fn new(
        x: &FlexTensor,
        indices: &FlexTensor,
        routing: &FlexTensor,
        weights: &'a Many<Flex>,
        settings: Settings,
    ) -> Self {
        let weights: Vec<_> = weights.0.iter().map(|group| Readable::new(group)).collect();
        let experts = weights[DOWN].matrices::<T>(settings.key.layout).len();
        Self {
            x: x.to_contiguous(),
            routing: dispatch_dtype!(routing.dtype(), R => numbers::<R, T>(routing)),
            choices: indices.layout().shape()[1],
            groups: Groups::by_expert(&ints(indices), experts),
            weights,
            settings,
        }
    }

    fn view(&self) -> View<'_, T> {
        let MoeKey {
            layout,
            projections,
            ..
        } = self.settings.key;
        let down = self.weights[DOWN].matrices(layout);
        let hidden = self.x.layout().shape()[1];
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
            hidden,
            width,
            settings: self.settings,
        }
    }
}

/// The groups of [`Many`]; biases come after the weights in the same order.
const GATE: usize = 0;
const UP: usize = 1;
const DOWN: usize = 2;
const BIASES: usize = 3;

/// The elements of a tensor of another type, such as f32 beside bf16.
fn numbers<R: Element, T: Element>(tensor: &FlexTensor) -> Vec<T::Acc> {
    use burn::tensor::ElementConversion;
    contiguous::<R>(&tensor.to_contiguous())
        .iter()
        .map(|value| value.load().elem())
        .collect()
}

/// Where the features of gate (0) and up (1) are in their weight.
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

/// The operands of a call, by expert.
struct View<'a, T: Element> {
    /// `[T, H]`, contiguous.
    x: &'a [T],
    /// By slot.
    routing: &'a [T::Acc],
    choices: usize,
    groups: &'a Groups,
    gate: Vec<Matrix<'a, T>>,
    up: Vec<Matrix<'a, T>>,
    down: Vec<Matrix<'a, T>>,
    biases: Option<Biases<T::Acc>>,
    /// H.
    hidden: usize,
    /// I.
    width: usize,
    settings: Settings,
}

impl<T: Element> View<'_, T> {
    /// How many tokens there are.
    fn tokens(&self) -> usize {
        self.routing.len().checked_div(self.choices).unwrap_or(0)
    }
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

/// The rows of `range` in parts of nearly one size, at most `most`.
fn chunks(range: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = range.len().div_ceil(most);
    (0..parts).map(move |part| {
        let at = |part: usize| range.start + range.len() * part / parts;
        at(part)..at(part + 1)
    })
}

/// Whether rows are such a part of all that the products with them are spread over threads: with
/// fewer there are other tasks enough. It depends on sizes alone, as results may.
fn spread(rows: usize, all: usize) -> bool {
    rows * 8 > all
}
