//! Rotary position embedding. Tensors travel in the order `x`, cosines, sines.

use crate::ops::rope::{Operands, RopeBackend, RopeKernel, Tensors};
use crate::remote::call::{Call, exactly, like, send};
use crate::remote::wire::{Malformed, Writer};
use crate::remote::{Host, Kernels};
use burn::backend::Remote;
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;

const FORWARD: &str = "burn-kernels/rope";
const BACKWARD: &str = "burn-kernels/rope_backward";

/// Adds what a server does of it.
pub(crate) fn handlers<B: Host + RopeKernel>(kernels: Kernels<B>) -> Kernels<B> {
    kernels.handle(FORWARD, forward).handle(BACKWARD, backward)
}

impl RopeBackend for Remote {
    fn rope(operands: Tensors<Self>) -> FloatTensor<Self> {
        Self::rope_forward(operands)
    }
}

impl RopeKernel for Remote {
    fn rope_forward(operands: Tensors<Self>) -> FloatTensor<Self> {
        rotate(FORWARD, operands)
    }

    fn rope_backward(operands: Tensors<Self>) -> FloatTensor<Self> {
        rotate(BACKWARD, operands)
    }
}

fn rotate(op: &'static str, operands: Tensors<Remote>) -> FloatTensor<Remote> {
    let (y, numbers) = (like(operands.x()), Writer::new().key(&operands.key()));
    let [y] = exactly(send(
        op,
        operands.into_tensors().collect(),
        vec![y],
        numbers,
    ));
    y
}

fn read<B: BackendIr>(call: &mut Call<'_, B>) -> Result<Tensors<B>, Malformed> {
    let key = call.scalars.key()?;
    let operands = Operands::new(call.float()?, call.float()?, call.float()?, key)?;
    operands.dtype()?;
    call.expect(&[like(operands.x())])?;
    Ok(operands)
}

fn forward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + RopeKernel,
{
    let operands = read(call)?;
    call.give(B::rope_forward(operands))
}

fn backward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + RopeKernel,
{
    let operands = read(call)?;
    call.give(B::rope_backward(operands))
}
