//! Grouped products on Flex: [`kernels_simd::moe::grouped_matmul`] on its tensors.

use super::super::integers::read as ints;
use super::super::readable::Readable;
use super::{Each, GroupedMatmul};
use crate::cpu::{tensor, view};
use crate::ops::fused::{BackwardOn, FusedKernel, Gradients, Made, MadeOn, Tensors};
use crate::ops::operands::checked;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use kernels_simd::Values;
use kernels_simd::moe::grouped_matmul::{forward, gradient_of_x, gradients_of_weights};
use std::ops::Range;

impl FusedKernel<GroupedMatmul> for Flex {
    fn forward(operands: Tensors<GroupedMatmul, Self>, _: Option<&Each<bool>>) -> MadeOn<Self> {
        checked(operands.dtype());
        let groups = groups(&operands);
        let (x, weights) = (
            operands.x().to_contiguous(),
            Readable::new(operands.weights()),
        );
        let y = forward(&view(&x), &groups, &weights.views(), operands.layout());
        Made::new(tensor(y, operands.result()))
    }

    fn backward(backward: BackwardOn<GroupedMatmul, Self>) -> Gradients<GroupedMatmul, Self> {
        let (operands, wanted) = (backward.operands(), backward.wanted());
        checked(operands.dtype());
        let (groups, layout) = (groups(operands), operands.layout());
        let dy = backward.dy().to_contiguous();
        let like = |values, of: &FlexTensor| tensor(values, of.layout().shape().clone());
        let x = wanted.x.then(|| {
            let weights = Readable::new(operands.weights());
            let dx = gradient_of_x(&view(&dy), &groups, &weights.views(), layout);
            like(dx, operands.x())
        });
        let rows = operands.x().to_contiguous();
        let weights =
            gradients_of_weights(&view(&rows), &view(&dy), &groups, layout, &wanted.weights);
        let weights = operands.weights().iter().zip(weights);
        let gradient = |(of, gradient): (_, Option<Values>)| Some(like(gradient?, of));
        Each {
            x,
            weights: weights.map(gradient).collect(),
        }
    }
}

fn groups(operands: &Tensors<GroupedMatmul, Flex>) -> Vec<Range<usize>> {
    super::groups(&ints(operands.counts()), operands.x().layout().shape()[0])
}
