//! A step of AdamW. Tensors travel in the order parameter, first and second moment, gradient.

use crate::ops::adam_w::{AdamWBackend, Operands, Settings, State, Tensors};
use crate::remote::call::{Call, Like, exactly, like, send};
use crate::remote::wire::{Malformed, Writer};
use crate::remote::{Host, Kernels};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Remote, TensorMetadata};

const STEP: &str = "burn-kernels/adam_w";

/// Adds what a server does of it.
pub(crate) fn handlers<B: Host + AdamWBackend>(kernels: Kernels<B>) -> Kernels<B> {
    kernels.handle(STEP, step)
}

impl AdamWBackend for Remote {
    fn adam_w(
        operands: Tensors<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (results, numbers) = (results(&operands), numbers(operands.settings()));
        let (state, gradient) = operands.into_parts();
        let inputs = vec![state.parameter, state.moment_1, state.moment_2, gradient];
        let [parameter, moment_1, moment_2] = exactly(send(STEP, inputs, results, numbers));
        (parameter, moment_1, moment_2)
    }
}

/// Describes the tensors that the step changes.
fn results<T: TensorMetadata>(operands: &Operands<T>) -> Vec<Like> {
    operands.tensors().take(3).map(like).collect()
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

fn step<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
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
    let state = State {
        parameter: call.float()?,
        moment_1: call.float()?,
        moment_2: call.float()?,
    };
    let operands = Operands::new(state, call.float()?, settings)?;
    operands.dtype()?;
    call.expect(&results(&operands))?;
    let (parameter, moment_1, moment_2) = B::adam_w(operands);
    call.give(parameter)?;
    call.give(moment_1)?;
    call.give(moment_2)
}
