//! Gated linear units. Tensors travel as gate and up, or as the one that holds both.

use crate::ops::glu::{GluBackend, GluKernel, Settings, Tensors};
use crate::remote::call::{Call, Like, exactly, like, send};
use crate::remote::wire::{Malformed, Writer};
use crate::semantics::{GluKey, Projections};
use burn::backend::Remote;
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;

pub(super) const FORWARD: &str = "burn-kernels/glu";
pub(super) const BACKWARD: &str = "burn-kernels/glu_backward";

impl GluBackend for Remote {
    fn glu(tensors: Tensors<Self>, settings: Settings, key: GluKey) -> FloatTensor<Self> {
        Self::glu_forward(tensors, settings, key)
    }
}

impl GluKernel for Remote {
    fn glu_forward(tensors: Tensors<Self>, settings: Settings, key: GluKey) -> FloatTensor<Self> {
        let y = like_gate(&tensors);
        let [y] = exactly(send(
            FORWARD,
            in_order(tensors),
            vec![y],
            numbers(settings, key),
        ));
        y
    }

    fn glu_backward(
        dy: FloatTensor<Self>,
        tensors: Tensors<Self>,
        settings: Settings,
        key: GluKey,
    ) -> Tensors<Self> {
        let tensors = in_order(tensors);
        let outputs = tensors.iter().map(like).collect();
        let inputs = std::iter::once(dy).chain(tensors).collect();
        let gradients = send(BACKWARD, inputs, outputs, numbers(settings, key));
        match key.projections {
            Projections::Separate => {
                let [gate, up] = exactly(gradients);
                Tensors::Separate { gate, up }
            }
            Projections::Chunked | Projections::Interleaved => {
                let [gate_up] = exactly(gradients);
                Tensors::Packed(gate_up)
            }
        }
    }
}

fn like_gate(tensors: &Tensors<Remote>) -> Like {
    match tensors {
        Tensors::Separate { gate, .. } => like(gate),
        Tensors::Packed(gate_up) => {
            let (mut shape, dtype) = like(gate_up);
            let last = shape.num_dims() - 1;
            shape[last] /= 2;
            (shape, dtype)
        }
    }
}

fn in_order(tensors: Tensors<Remote>) -> Vec<FloatTensor<Remote>> {
    match tensors {
        Tensors::Separate { gate, up } => vec![gate, up],
        Tensors::Packed(gate_up) => vec![gate_up],
    }
}

fn numbers(settings: Settings, key: GluKey) -> Writer {
    Writer::new()
        .key(&key)
        .optional_float(settings.limit)
        .optional_float(settings.sparsity)
}

fn read<B: BackendIr>(call: &mut Call<'_, B>) -> Result<(GluKey, Settings, Tensors<B>), Malformed> {
    let key: GluKey = call.scalars.key()?;
    let settings = Settings {
        limit: call.scalars.optional_float()?,
        sparsity: call.scalars.optional_float()?,
    };
    let tensors = match key.projections {
        Projections::Separate => Tensors::Separate {
            gate: call.float()?,
            up: call.float()?,
        },
        Projections::Chunked | Projections::Interleaved => Tensors::Packed(call.float()?),
    };
    Ok((key, settings, tensors))
}

pub(super) fn forward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + GluKernel,
{
    let (key, settings, tensors) = read(call)?;
    call.give(B::glu_forward(tensors, settings, key))
}

pub(super) fn backward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + GluKernel,
{
    let dy = call.float()?;
    let (key, settings, tensors) = read(call)?;
    match B::glu_backward(dy, tensors, settings, key) {
        Tensors::Separate { gate, up } => {
            call.give(gate)?;
            call.give(up)
        }
        Tensors::Packed(gate_up) => call.give(gate_up),
    }
}
