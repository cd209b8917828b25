//! The experts of a mixture on Flex: [`kernels_simd::moe::experts`] on its tensors.

use super::super::integers;
use super::super::readable::Readable;
use super::{Each, Experts, Launch};
use crate::cpu::{BASE, tensor, view};
use crate::ops::fused::{BackwardOn, FusedKernel, Gradients, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::operands::{array, checked};
use crate::registry::{self, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use kernels_simd::Values;
use kernels_simd::moe::{Groups, experts};

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::MoeExperts(Launch(OpLaunch::of::<Experts, Flex>())),
    accepts: |key| matches!(key, SemanticsKey::MoeExperts(_)),
    ..BASE
};

impl FusedKernel<Experts> for Flex {
    fn forward(operands: Tensors<Experts, Self>, wanted: Option<&Each<bool>>) -> MadeOn<Self> {
        let (dtype, keep) = (checked(operands.dtype()), wanted.is_some());
        let shape = operands.x().layout().shape();
        if !keep && shape.num_elements() == 0 {
            // There may be more tokens without elements than there is memory for their choices.
            return Made::new(FlexTensor::empty(shape.clone(), dtype));
        }
        let readables = Readables::new(&operands);
        let found = experts::forward(&readables.operands(&operands), keep);
        let kept = |kept| {
            let rows = readables.groups.slots().len();
            tensor(kept, Shape::new([rows, 2 * operands.width()]))
        };
        Made::new(tensor(found.y, shape.clone())).saving(found.kept.map(kept))
    }

    fn backward(backward: BackwardOn<Experts, Self>) -> Gradients<Experts, Self> {
        let (operands, dy, saved, _, wanted) = backward.into_parts();
        checked(operands.dtype());
        let readables = Readables::new(&operands);
        let dy = dy.to_contiguous();
        let [mut kept] = array(saved);
        kept = kept.to_contiguous();
        let Each {
            x,
            routing,
            weights,
        } = wanted;
        let by_row = experts::backward(
            &readables.operands(&operands),
            &view(&dy),
            &view(&kept),
            &experts::Wanted {
                x,
                routing,
                weights,
            },
        );
        // Freed here, so that it does not exist together with the gradient of the tokens.
        drop(kept);
        let found = by_row.by_token();
        let like = |values, of: &FlexTensor| tensor(values, of.layout().shape().clone());
        let weights = operands.weights().iter().zip(found.weights);
        Each {
            x: found.x.map(|x| like(x, operands.x())),
            routing: found
                .routing
                .map(|routing| like(routing, operands.routing())),
            weights: weights
                .map(|(group, gradients)| {
                    let each = group.iter().zip(gradients);
                    let gradient = |(of, gradient): (_, Option<Values>)| Some(like(gradient?, of));
                    each.map(gradient).collect()
                })
                .collect(),
        }
    }
}

/// The operands of a call that can be read in place.
struct Readables<'a> {
    x: FlexTensor,
    routing: FlexTensor,
    groups: Groups,
    weights: Vec<Readable<'a>>,
}

impl<'a> Readables<'a> {
    fn new(operands: &'a Tensors<Experts, Flex>) -> Self {
        let weights = operands.weights().iter();
        Self {
            x: operands.x().to_contiguous(),
            routing: operands.routing().to_contiguous(),
            groups: integers::sort(operands.indices(), operands.experts()),
            weights: weights.map(|group| Readable::new(group)).collect(),
        }
    }

    fn operands(&self, operands: &Tensors<Experts, Flex>) -> experts::Operands<'_> {
        let settings = operands.settings();
        let key = settings.key;
        experts::Operands {
            x: view(&self.x),
            routing: view(&self.routing),
            groups: &self.groups,
            weights: self.weights.iter().map(Readable::views).collect(),
            settings: experts::Settings {
                activation: key.activation,
                projections: key.projections,
                layout: key.layout,
                limit: settings.limit,
                up_offset: key.up_offset.value(),
            },
        }
    }
}
