//! RMSNorm. Tensors travel in the order `x`, weight, gate, those that the key has.

use crate::ops::rms_norm::{
    Backward, Gradients, Operands, RmsNormBackend, RmsNormKernel, Settings, Tensors,
};
use crate::remote::call::{Call, Like, exactly, like, send};
use crate::remote::wire::{Malformed, Writer};
use crate::remote::{Host, Kernels};
use crate::semantics::{Gating, RmsNormKey, Scale};
use burn::backend::Remote;
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;

const FORWARD: &str = "burn-kernels/rms_norm";
const BACKWARD: &str = "burn-kernels/rms_norm_backward";

/// Adds what a server does of it.
pub(crate) fn handlers<B: Host + RmsNormKernel>(kernels: Kernels<B>) -> Kernels<B> {
    kernels.handle(FORWARD, forward).handle(BACKWARD, backward)
}

impl RmsNormBackend for Remote {
    fn rms_norm(operands: Tensors<Self>) -> FloatTensor<Self> {
        let (y, numbers) = (like(operands.x()), numbers(&operands));
        let [y] = exactly(send(
            FORWARD,
            operands.into_tensors().collect(),
            vec![y],
            numbers,
        ));
        y
    }
}

impl RmsNormKernel for Remote {
    fn rms_norm_forward(operands: Tensors<Self>) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let results = vec![like(operands.x()), operands.rstd()];
        let numbers = numbers(&operands);
        let [y, rstd] = exactly(send(
            FORWARD,
            operands.into_tensors().collect(),
            results,
            numbers,
        ));
        (y, rstd)
    }

    fn rms_norm_backward(backward: Backward<FloatTensor<Self>>) -> Gradients<FloatTensor<Self>> {
        let operands = backward.operands();
        let (weight_gradient, has_gate) = (backward.weight_gradient(), operands.gate().is_some());
        let (numbers, outputs) = (
            numbers(operands).flag(weight_gradient),
            gradients(&backward),
        );
        let (operands, dy, rstd) = backward.into_parts();
        let mut inputs = vec![dy, rstd];
        inputs.extend(operands.into_tensors());
        let mut gradients = send(BACKWARD, inputs, outputs, numbers).into_iter();
        let mut next = || gradients.next().expect("as many results as were asked for");
        Gradients {
            x: next(),
            weight: weight_gradient.then(&mut next),
            gate: has_gate.then(&mut next),
        }
    }
}

fn numbers<T>(operands: &Operands<T>) -> Writer {
    Writer::new()
        .key(&operands.key())
        .float(operands.settings().eps)
        .optional_number(operands.settings().group_size)
}

/// The gradients that are returned: of `x`, of the weight if it is wanted, and of the gate.
fn gradients<T: burn::backend::TensorMetadata>(backward: &Backward<T>) -> Vec<Like> {
    let operands = backward.operands();
    let weight = operands
        .weight()
        .filter(|_| backward.weight_gradient())
        .map(like);
    std::iter::once(like(operands.x()))
        .chain(weight)
        .chain(operands.gate().map(like))
        .collect()
}

/// The operands of a call.
fn read<B: BackendIr>(call: &mut Call<'_, B>) -> Result<Tensors<B>, Malformed> {
    let key: RmsNormKey = call.scalars.key()?;
    let settings = Settings {
        eps: call.scalars.float()?,
        group_size: call.scalars.optional_number()?,
    };
    let x = call.float()?;
    let weight = (key.scale == Scale::Weight).then(|| call.float());
    let weight = weight.transpose()?;
    let gate = (key.gating != Gating::None).then(|| call.float());
    let operands = Operands::new(x, weight, gate.transpose()?, settings, key)?;
    operands.dtype()?;
    Ok(operands)
}

fn forward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + RmsNormKernel,
{
    let operands = read(call)?;
    let with_rstd = call.wanted() > 1;
    let mut results = vec![like(operands.x())];
    results.extend(with_rstd.then(|| operands.rstd()));
    call.expect(&results)?;
    let (y, rstd) = B::rms_norm_forward(operands);
    call.give(y)?;
    if with_rstd {
        call.give(rstd)?;
    }
    Ok(())
}

fn backward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + RmsNormKernel,
{
    let (dy, rstd) = (call.float()?, call.float()?);
    let operands = read(call)?;
    let weight_gradient = call.scalars.flag()?;
    let backward = operands.backward(dy, rstd, weight_gradient)?;
    call.expect(&gradients(&backward))?;
    let gradients = B::rms_norm_backward(backward);
    call.give(gradients.x)?;
    // A kernel may compute one that was not asked for.
    for gradient in gradients
        .weight
        .filter(|_| weight_gradient)
        .into_iter()
        .chain(gradients.gate)
    {
        call.give(gradient)?;
    }
    Ok(())
}
