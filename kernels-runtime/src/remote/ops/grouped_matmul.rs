//! Products of rows grouped by expert.

use super::weights;
use crate::ops::moe::Many;
use crate::ops::moe::grouped_matmul::{GroupedMatmulBackend, GroupedMatmulKernel};
use crate::remote::call::{Call, exactly, like, send};
use crate::remote::wire::{Malformed, Writer};
use crate::semantics::ExpertLayout;
use burn::backend::ir::BackendIr;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Remote, Shape, TensorMetadata};

pub(super) const FORWARD: &str = "burn-kernels/grouped_matmul";
pub(super) const BACKWARD: &str = "burn-kernels/grouped_matmul_backward";

impl GroupedMatmulBackend for Remote {
    fn grouped_matmul(
        x: FloatTensor<Self>,
        counts: IntTensor<Self>,
        weights: Many<Self>,
        layout: ExpertLayout,
    ) -> FloatTensor<Self> {
        Self::grouped_matmul_forward(x, counts, weights, layout)
    }
}

impl GroupedMatmulKernel for Remote {
    fn grouped_matmul_forward(
        x: FloatTensor<Self>,
        counts: IntTensor<Self>,
        weights: Many<Self>,
        layout: ExpertLayout,
    ) -> FloatTensor<Self> {
        let weight = weights.0[0][0].shape();
        let last = weight.num_dims() - 1;
        let features = match layout {
            ExpertLayout::Linear => weight[last - 1],
            ExpertLayout::Matmul => weight[last],
        };
        let y = (Shape::new([x.shape()[0], features]), x.dtype());
        let numbers = weights::write(Writer::new().key(&layout), &weights);
        let mut inputs = vec![x, counts];
        inputs.extend(weights.0.into_iter().flatten());
        let [y] = exactly(send(FORWARD, inputs, vec![y], numbers));
        y
    }

    fn grouped_matmul_backward(
        dy: FloatTensor<Self>,
        x: FloatTensor<Self>,
        counts: IntTensor<Self>,
        weights: Many<Self>,
        layout: ExpertLayout,
        x_gradient: bool,
        wanted: Vec<Vec<bool>>,
    ) -> (
        Option<FloatTensor<Self>>,
        Vec<Vec<Option<FloatTensor<Self>>>>,
    ) {
        let numbers = weights::write(Writer::new().key(&layout), &weights).flag(x_gradient);
        let numbers = weights::write_wanted(numbers, &wanted);
        let mut outputs: Vec<_> = x_gradient.then(|| like(&x)).into_iter().collect();
        outputs.extend(weights::like_wanted(&weights, &wanted));
        let mut inputs = vec![dy, x, counts];
        inputs.extend(weights.0.into_iter().flatten());
        let mut gradients = send(BACKWARD, inputs, outputs, numbers).into_iter();
        let mut next = || gradients.next().expect("as many results as were asked for");
        let dx = x_gradient.then(&mut next);
        (dx, weights::place(&wanted, &mut gradients))
    }
}

pub(super) fn forward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + GroupedMatmulKernel,
{
    let layout = call.scalars.key()?;
    let (x, counts) = (call.float()?, call.int()?);
    let weights = weights::read(call)?;
    call.give(B::grouped_matmul_forward(x, counts, weights, layout))
}

pub(super) fn backward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + GroupedMatmulKernel,
{
    let layout = call.scalars.key()?;
    let (dy, x, counts) = (call.float()?, call.float()?, call.int()?);
    let weights = weights::read(call)?;
    let x_gradient = call.scalars.flag()?;
    let wanted = weights::read_wanted(call, &weights)?;
    let (dx, dw) =
        B::grouped_matmul_backward(dy, x, counts, weights, layout, x_gradient, wanted.clone());
    if x_gradient {
        let missing = || Malformed::new("the kernel left a gradient out");
        call.give(dx.ok_or_else(missing)?)?;
    }
    weights::give(call, &wanted, dw)
}
