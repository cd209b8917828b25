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

use super::super::cube::entries::entries;
use super::super::cube::stack;
use super::{Backward, Gradients, GroupedMatmulBackend, GroupedMatmulKernel, Tensors};
use crate::gpu::launch::contiguous;
use crate::gpu::{Deferred, indexable, like};
use crate::ops::operands::checked;
use crate::reason::Reason;
use crate::semantics::ExpertLayout;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Cube, DispatchTensor, TensorMetadata};
use burn_cubecl::tensor::CubeTensor;

/// Returns the reason if kernels don't take operands of these sizes.
pub(crate) fn takes(
    operands: &super::Operands<DispatchTensor, DispatchTensor>,
) -> Result<(), Reason> {
    let x = operands.x();
    let ([rows, inputs], result) = (x.shape().dims(), operands.result());
    indexable(&[x])?;
    match multiplies(rows, operands.experts(), [inputs, result[1]]) {
        true => Ok(()),
        false => Err(Reason::Shape),
    }
}

/// Panics if the sizes of a call that nobody [decided](takes) are beyond the kernels' limits.
fn assert_fits(operands: &Tensors<Cube>) {
    let ([rows, inputs], features) = (operands.x().shape().dims(), operands.result()[1]);
    let experts = operands.experts();
    assert!(
        multiplies(rows, experts, [inputs, features]),
        "grouped products: kernels for GPUs don't take {rows} rows of {experts} experts from {inputs} to {features} features"
    );
}

/// Returns the other layout: that of the same weights from features to inputs.
pub(in crate::ops::moe) fn other(layout: ExpertLayout) -> ExpertLayout {
    match layout {
        ExpertLayout::Linear => ExpertLayout::Matmul,
        ExpertLayout::Matmul => ExpertLayout::Linear,
    }
}

impl GroupedMatmulBackend for Cube {
    fn grouped_matmul(operands: Tensors<Self>) -> FloatTensor<Self> {
        Self::grouped_matmul_forward(operands)
    }
}

impl GroupedMatmulKernel for Cube {
    fn grouped_matmul_forward(operands: Tensors<Self>) -> FloatTensor<Self> {
        let dtype = checked(operands.dtype());
        assert_fits(&operands);
        let mut deferred = Deferred::new("burn-kernels/grouped_matmul", operands.x());
        let (result, layout) = ((operands.result(), dtype), operands.layout());
        let weights = stack::stacked(operands.weights(), 3);
        let tensors = [
            operands.x().clone(),
            weights,
            entries(operands.counts().clone()),
        ];
        let tensors = tensors.map(|tensor| deferred.operand(tensor));
        let mut results = deferred.results([result], move |resolve| {
            let tensors = tensors
                .clone()
                .map(|operand| contiguous(resolve.tensor(operand)));
            vec![forward(&tensors, layout)]
        });
        results.next().expect("there is one result")
    }

    fn grouped_matmul_backward(
        backward: Backward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> Gradients<FloatTensor<Self>> {
        let (operands, dy, wanted) = backward.into_parts();
        checked(operands.dtype());
        assert_fits(&operands);
        let mut deferred = Deferred::new("burn-kernels/grouped_matmul_backward", &dy);
        let (layout, wants_x) = (operands.layout(), wanted.x);
        let wants_weights = wanted.weights.contains(&true);
        let weights = stack::stacked(operands.weights(), 3);
        let x = wants_x.then(|| like(operands.x()));
        let results = x.into_iter().chain(wants_weights.then(|| like(&weights)));
        let counts = entries(operands.counts().clone());
        let tensors = [dy, operands.x().clone(), weights, counts];
        let tensors = tensors.map(|tensor| deferred.operand(tensor));
        let mut results = deferred.results(results.collect::<Vec<_>>(), move |resolve| {
            let tensors = tensors
                .clone()
                .map(|operand| contiguous(resolve.tensor(operand)));
            gradients(&tensors, layout, [wants_x, wants_weights])
        });
        let mut next = || results.next().expect("there are as many as were wanted");
        Gradients {
            x: wants_x.then(&mut next),
            weights: match wants_weights {
                true => stack::apart(next(), operands.weights()),
                false => vec![None; operands.weights().len()],
            },
        }
    }
}

fn forward([x, weights, counts]: &[CubeTensor; 3], layout: ExpertLayout) -> CubeTensor {
    let product = Product {
        x: Columns::all(x),
        sources: None,
        weights,
        layout,
        bias: None,
    };
    product.of(&Groups::new(counts, x.shape()[0]), x.dtype)
}

/// Returns the gradients of `x` and of the weights that are wanted.
fn gradients(
    [dy, x, weights, counts]: &[CubeTensor; 4],
    layout: ExpertLayout,
    [wants_x, wants_weights]: [bool; 2],
) -> Vec<CubeTensor> {
    let groups = Groups::new(counts, x.shape()[0]);
    let [of_dy, of_x] = [dy, x].map(Columns::all);
    let dx = || {
        let product = Product {
            x: of_dy,
            sources: None,
            weights,
            layout: other(layout),
            bias: None,
        };
        product.of(&groups, dy.dtype)
    };
    let d_weights = || match layout {
        ExpertLayout::Linear => outer(of_dy, of_x, None, &groups),
        ExpertLayout::Matmul => outer(of_x, of_dy, None, &groups),
    };
    let dx = wants_x.then(dx);
    dx.into_iter()
        .chain(wants_weights.then(d_weights))
        .collect()
}
