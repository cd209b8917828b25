//! A step of AdamW. Tensors travel in the order parameter, first and second moment, gradient.

use crate::ops::adam_w::{AdamWBackend, Settings};
use crate::remote::call::{Call, exactly, like, send};
use crate::remote::wire::{Malformed, Writer};
use burn::backend::Remote;
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;

pub(super) const STEP: &str = "burn-kernels/adam_w";

impl AdamWBackend for Remote {
    fn adam_w(
        parameter: FloatTensor<Self>,
        moment_1: FloatTensor<Self>,
        moment_2: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        settings: Settings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let results = [&parameter, &moment_1, &moment_2].map(like).to_vec();
        let inputs = vec![parameter, moment_1, moment_2, gradient];
        let [parameter, moment_1, moment_2] =
            exactly(send(STEP, inputs, results, numbers(settings)));
        (parameter, moment_1, moment_2)
    }
}

fn numbers(settings: Settings) -> Writer {
    Writer::new()
        .float(settings.learning_rate)
        .float(settings.beta_1)
        .float(settings.beta_2)
        .float(settings.epsilon)
        .float(settings.weight_decay)
        .number(settings.step)
}

pub(super) fn step<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + AdamWBackend,
{
    let settings = Settings {
        learning_rate: call.scalars.float()?,
        beta_1: call.scalars.float()?,
        beta_2: call.scalars.float()?,
        epsilon: call.scalars.float()?,
        weight_decay: call.scalars.float()?,
        step: call.scalars.number()?,
    };
    let (parameter, moment_1) = (call.float()?, call.float()?);
    let (moment_2, gradient) = (call.float()?, call.float()?);
    let (parameter, moment_1, moment_2) =
        B::adam_w(parameter, moment_1, moment_2, gradient, settings);
    call.give(parameter)?;
    call.give(moment_1)?;
    call.give(moment_2)
}
