//! The remote rotary position embedding. Tensors are sent in the order `x`, cosines, sines.

use crate::ops::rope::{Operands, RopeBackend, RopeKernel, Tensors};
use crate::remote::call::{Call, Handled, like, send};
use crate::remote::{Host, Kernels};
use crate::semantics::RopeKey;
use burn::backend::Remote;
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;

const FORWARD: &str = "burn-kernels/rope";
const BACKWARD: &str = "burn-kernels/rope_backward";

/// Adds the server's handlers of the operation.
pub(crate) fn handlers<B: Host + RopeKernel>(kernels: Kernels<B>) -> Kernels<B> {
    kernels
        .handle(FORWARD, |call, key| handle(call, key, B::rope_forward))
        .handle(BACKWARD, |call, key| handle(call, key, B::rope_backward))
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
    let (results, key) = ([like(operands.x())], operands.key());
    let [y] = send(op, operands.into_tensors(), results, &key);
    y
}

fn handle<B: BackendIr>(
    call: &mut Call<'_, B>,
    key: RopeKey,
    rotate: fn(Tensors<B>) -> FloatTensor<B>,
) -> Handled {
    let operands = Operands::new(call.float()?, call.float()?, call.float()?, key)?;
    operands.dtype()?;
    call.answer([like(operands.x())], || [rotate(operands)])
}
