//! RMSNorm. Tensors travel in the order `x`, weight, gate, those that the key has.

use crate::ops::Optional;
use crate::ops::rms_norm::{RmsNormBackend, RmsNormKernel, Settings, TensorGradients, Tensors};
use crate::remote::call::{Call, exactly, like, send};
use crate::remote::wire::{Malformed, Writer};
use crate::semantics::{Gating, RmsNormKey, Scale};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Remote, Shape};

pub(super) const FORWARD: &str = "burn-kernels/rms_norm";
pub(super) const BACKWARD: &str = "burn-kernels/rms_norm_backward";

impl RmsNormBackend for Remote {
    fn rms_norm(
        x: FloatTensor<Self>,
        weight: Optional<Self>,
        gate: Optional<Self>,
        settings: Settings,
        key: RmsNormKey,
    ) -> FloatTensor<Self> {
        let y = like(&x);
        let tensors = Tensors {
            x,
            weight: weight.into_option(),
            gate: gate.into_option(),
        };
        let [y] = exactly(send(
            FORWARD,
            in_order(tensors),
            vec![y],
            numbers(settings, key),
        ));
        y
    }
}

impl RmsNormKernel for Remote {
    fn rms_norm_forward(
        tensors: Tensors<Self>,
        settings: Settings,
        key: RmsNormKey,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let y = like(&tensors.x);
        let width = y.0[y.0.num_dims() - 1];
        let groups = settings.group_size.map_or(1, |size| width / size);
        let rows = y.0.num_elements() / width.max(1) * groups;
        let rstd = (Shape::new([rows]), crate::ops::compute_dtype(y.1));
        let numbers = numbers(settings, key);
        let [y, rstd] = exactly(send(FORWARD, in_order(tensors), vec![y, rstd], numbers));
        (y, rstd)
    }

    fn rms_norm_backward(
        dy: FloatTensor<Self>,
        tensors: Tensors<Self>,
        rstd: FloatTensor<Self>,
        settings: Settings,
        key: RmsNormKey,
        weight_gradient: bool,
    ) -> TensorGradients<Self> {
        let weight = tensors
            .weight
            .as_ref()
            .filter(|_| weight_gradient)
            .map(like);
        let gate = tensors.gate.as_ref().map(like);
        let (has_weight, has_gate) = (weight.is_some(), gate.is_some());
        let outputs = std::iter::once(like(&tensors.x))
            .chain(weight)
            .chain(gate)
            .collect();
        let mut inputs = vec![dy, rstd];
        inputs.extend(in_order(tensors));
        let numbers = numbers(settings, key).flag(weight_gradient);
        let mut gradients = send(BACKWARD, inputs, outputs, numbers).into_iter();
        let mut next = || gradients.next().expect("as many results as were asked for");
        TensorGradients {
            x: next(),
            weight: has_weight.then(&mut next),
            gate: has_gate.then(&mut next),
        }
    }
}

fn in_order(tensors: Tensors<Remote>) -> Vec<FloatTensor<Remote>> {
    let Tensors { x, weight, gate } = tensors;
    std::iter::once(x).chain(weight).chain(gate).collect()
}

fn numbers(settings: Settings, key: RmsNormKey) -> Writer {
    Writer::new()
        .key(&key)
        .float(settings.eps)
        .optional_number(settings.group_size)
}

/// The key, numbers and tensors of a call.
fn read<B: BackendIr>(
    call: &mut Call<'_, B>,
) -> Result<(RmsNormKey, Settings, Tensors<B>), Malformed> {
    let key: RmsNormKey = call.scalars.key()?;
    let settings = Settings {
        eps: call.scalars.float()?,
        group_size: call.scalars.optional_number()?,
    };
    let x = call.float()?;
    let weight = (key.scale == Scale::Weight).then(|| call.float());
    let weight = weight.transpose()?;
    let gate = (key.gating != Gating::None).then(|| call.float());
    let tensors = Tensors {
        x,
        weight,
        gate: gate.transpose()?,
    };
    Ok((key, settings, tensors))
}

pub(super) fn forward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + RmsNormKernel,
{
    let (key, settings, tensors) = read(call)?;
    let (y, rstd) = B::rms_norm_forward(tensors, settings, key);
    call.give(y)?;
    if call.wanted() > 0 {
        call.give(rstd)?;
    }
    Ok(())
}

pub(super) fn backward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + RmsNormKernel,
{
    let (dy, rstd) = (call.float()?, call.float()?);
    let (key, settings, tensors) = read(call)?;
    let weight_gradient = call.scalars.flag()?;
    let gradients = B::rms_norm_backward(dy, tensors, rstd, settings, key, weight_gradient);
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
