//! Gated linear units. Tensors travel as gate and up, or as the one that holds both.

use crate::ops::glu::{Backward, GluBackend, GluKernel, Operands, Projected, Settings, Tensors};
use crate::remote::call::{Call, Like, exactly, like, send};
use crate::remote::wire::{Malformed, Writer};
use crate::remote::{Host, Kernels};
use crate::semantics::{GluKey, Projections};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Remote, TensorMetadata};

const FORWARD: &str = "burn-kernels/glu";
const BACKWARD: &str = "burn-kernels/glu_backward";

/// Adds what a server does of it.
pub(crate) fn handlers<B: Host + GluKernel>(kernels: Kernels<B>) -> Kernels<B> {
    kernels.handle(FORWARD, forward).handle(BACKWARD, backward)
}

impl GluBackend for Remote {
    fn glu(operands: Tensors<Self>) -> FloatTensor<Self> {
        Self::glu_forward(operands)
    }
}

impl GluKernel for Remote {
    fn glu_forward(operands: Tensors<Self>) -> FloatTensor<Self> {
        let (y, numbers) = (result(&operands), numbers(&operands));
        let inputs = operands.into_projected().into_tensors().collect();
        let [y] = exactly(send(FORWARD, inputs, vec![y], numbers));
        y
    }

    fn glu_backward(backward: Backward<FloatTensor<Self>>) -> Projected<FloatTensor<Self>> {
        let operands = backward.operands();
        let outputs = operands.tensors().map(like).collect();
        let (numbers, key) = (numbers(operands), operands.key());
        let (operands, dy) = backward.into_parts();
        // The tensors themselves: a clone would leave one to let go of, which is a message more.
        let tensors = operands.into_projected().into_tensors();
        let inputs = std::iter::once(dy).chain(tensors).collect();
        let gradients = send(BACKWARD, inputs, outputs, numbers);
        match key.projections {
            Projections::Separate => {
                let [gate, up] = exactly(gradients);
                Projected::Separate { gate, up }
            }
            Projections::Chunked | Projections::Interleaved => {
                let [gate_up] = exactly(gradients);
                Projected::Packed(gate_up)
            }
        }
    }
}

fn result<T: TensorMetadata>(operands: &Operands<T>) -> Like {
    let dtype = operands.tensors().next().map(TensorMetadata::dtype);
    (
        operands.result(),
        dtype.expect("there is one tensor at least"),
    )
}

fn numbers<T>(operands: &Operands<T>) -> Writer {
    Writer::new()
        .key(&operands.key())
        .optional_float(operands.settings().limit)
        .optional_float(operands.settings().sparsity)
}

fn read<B: BackendIr>(call: &mut Call<'_, B>) -> Result<Tensors<B>, Malformed> {
    let key: GluKey = call.scalars.key()?;
    let settings = Settings {
        limit: call.scalars.optional_float()?,
        sparsity: call.scalars.optional_float()?,
    };
    let projected = match key.projections {
        Projections::Separate => Projected::Separate {
            gate: call.float()?,
            up: call.float()?,
        },
        Projections::Chunked | Projections::Interleaved => Projected::Packed(call.float()?),
    };
    let operands = Operands::new(projected, settings, key)?;
    operands.dtype()?;
    Ok(operands)
}

fn forward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + GluKernel,
{
    let operands = read(call)?;
    call.expect(&[result(&operands)])?;
    call.give(B::glu_forward(operands))
}

fn backward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + GluKernel,
{
    let dy = call.float()?;
    let backward = read(call)?.backward(dy)?;
    let expected: Vec<Like> = backward.operands().tensors().map(like).collect();
    call.expect(&expected)?;
    for gradient in B::glu_backward(backward).into_tensors() {
        call.give(gradient)?;
    }
    Ok(())
}
