//! Grouped products on GPUs, with tiles in shared memory: 64 rows of one expert by 64 features. Sums are in f32, also those of
//! half types, and rounded where they are written.
//!
//! | pass | kernels |
//! |---|---|
//! | forward, and the gradient of `x` with the other layout of the same weights | [`kernels::plan`], [`kernels::product`] |
//! | the gradient of the weights | [`kernels::plan`], [`kernels::outer`] |
//!
//! **Groups.** The host does not know the counts, so that the kernels are launched for as many tiles as there may be, and
//! find the group of a tile on the device. Sums are in a fixed order: over the inputs, and over the rows of an expert.
//!
//! **Lists.** A kernel takes seven tensors at most, so that the weights of a list are copied to one tensor first.
//!
//! **Mistakes.** If the counts are negative, or more than the rows together, all results are NaN.

mod kernels;
mod launch;

pub(in crate::ops::moe) use launch::{Columns, Groups, Product, Sources, multiplies, outer};

use super::super::cube::stack;
use super::{Each, GroupedMatmul, Operands};
use crate::gpu::launch::contiguous;
use crate::gpu::{OnGpu, indexable};
use crate::ops::fused::{Backward, Made, Tensors};
use crate::ops::operands::{Mismatch, require};
use crate::reason::Reason;
use crate::semantics::ExpertLayout;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, DispatchTensor, TensorMetadata};
use burn_cubecl::tensor::CubeTensor;

/// Returns the reason if kernels don't take operands of these sizes.
pub(crate) fn takes(operands: &Operands<DispatchTensor, DispatchTensor>) -> Result<(), Reason> {
    let x = operands.x();
    let ([rows, inputs], result) = (x.shape().dims(), operands.result());
    indexable(&[x])?;
    match multiplies(rows, operands.experts(), [inputs, result[1]]) {
        true => Ok(()),
        false => Err(Reason::Shape),
    }
}

/// Returns the other layout: that of the same weights from features to inputs.
pub(in crate::ops::moe) fn other(layout: ExpertLayout) -> ExpertLayout {
    match layout {
        ExpertLayout::Linear => ExpertLayout::Matmul,
        ExpertLayout::Matmul => ExpertLayout::Linear,
    }
}

impl OnGpu for GroupedMatmul {
    /// Checks the sizes of a call that nobody [decided](takes).
    fn fits(operands: &Tensors<Self, Cube>, _: &[FloatTensor<Cube>]) -> Result<(), Mismatch> {
        let ([rows, inputs], features) = (operands.x().shape().dims(), operands.result()[1]);
        let experts = operands.experts();
        require!(
            multiplies(rows, experts, [inputs, features]),
            "grouped products: kernels for GPUs don't take {rows} rows of {experts} experts from {inputs} to {features} features"
        );
        Ok(())
    }

    fn forward(
        operands: Operands<CubeTensor, CubeTensor>,
        _: Option<&Each<bool>>,
    ) -> Made<CubeTensor> {
        let [x, weights, counts] = tensors(&operands);
        let product = Product {
            x: Columns::all(&x),
            sources: None,
            weights: &weights,
            layout: operands.layout(),
            bias: None,
        };
        Made::new(product.of(&Groups::new(&counts, x.shape()[0]), x.dtype))
    }

    fn backward(backward: Backward<Self, CubeTensor>) -> Each<Option<CubeTensor>> {
        let (operands, wanted) = (backward.operands(), backward.wanted());
        let ([x, weights, counts], layout) = (tensors(operands), operands.layout());
        let dy = contiguous(backward.dy().clone());
        let groups = Groups::new(&counts, x.shape()[0]);
        let [of_dy, of_x] = [&dy, &x].map(Columns::all);
        let dx = || {
            let product = Product {
                x: of_dy,
                sources: None,
                weights: &weights,
                layout: other(layout),
                bias: None,
            };
            product.of(&groups, dy.dtype)
        };
        let d_weights = || match layout {
            ExpertLayout::Linear => outer(of_dy, of_x, None, &groups),
            ExpertLayout::Matmul => outer(of_x, of_dy, None, &groups),
        };
        Each {
            x: wanted.x.then(dx),
            weights: match wanted.weights.contains(&true) {
                true => stack::apart(d_weights(), operands.weights()),
                false => vec![None; operands.weights().len()],
            },
        }
    }
}

/// Returns the rows, the weights in one tensor, and the counts, all contiguous.
fn tensors(operands: &Operands<CubeTensor, CubeTensor>) -> [CubeTensor; 3] {
    let weights = stack::stacked(operands.weights(), 3);
    [operands.x().clone(), weights, operands.counts().clone()].map(contiguous)
}
