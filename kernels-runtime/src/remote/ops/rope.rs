//! Rotary position embedding. Tensors travel in the order of the functions' parameters.

use crate::ops::rope::{RopeBackend, RopeKernel};
use crate::remote::call::{Call, exactly, like, send};
use crate::remote::wire::{Malformed, Writer};
use crate::semantics::RopeKey;
use burn::backend::Remote;
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;

pub(super) const FORWARD: &str = "burn-kernels/rope";
pub(super) const BACKWARD: &str = "burn-kernels/rope_backward";

impl RopeBackend for Remote {
    fn rope(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        key: RopeKey,
    ) -> FloatTensor<Self> {
        Self::rope_forward(x, cos, sin, key)
    }
}

impl RopeKernel for Remote {
    fn rope_forward(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        key: RopeKey,
    ) -> FloatTensor<Self> {
        rotate(FORWARD, [x, cos, sin], key)
    }

    fn rope_backward(
        dy: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        key: RopeKey,
    ) -> FloatTensor<Self> {
        rotate(BACKWARD, [dy, cos, sin], key)
    }
}

fn rotate(
    op: &'static str,
    tensors: [FloatTensor<Remote>; 3],
    key: RopeKey,
) -> FloatTensor<Remote> {
    let y = like(&tensors[0]);
    let [y] = exactly(send(op, tensors.into(), vec![y], Writer::new().key(&key)));
    y
}

pub(super) fn forward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + RopeKernel,
{
    let key = call.scalars.key()?;
    let y = B::rope_forward(call.float()?, call.float()?, call.float()?, key);
    call.give(y)
}

pub(super) fn backward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + RopeKernel,
{
    let key = call.scalars.key()?;
    let dx = B::rope_backward(call.float()?, call.float()?, call.float()?, key);
    call.give(dx)
}
