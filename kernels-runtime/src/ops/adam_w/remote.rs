//! The remote AdamW step. Tensors are sent in the order parameter, first moment, second moment, gradient.

use crate::ops::adam_w::{AdamWBackend, Operands, Settings, State, Tensors};
use crate::remote::call::{Like, like, send};
use crate::remote::{Host, Kernels};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Remote, TensorMetadata};

const STEP: &str = "burn-kernels/adam_w";

/// Adds the server's handler of the step.
pub(crate) fn handlers<B: Host + AdamWBackend>(kernels: Kernels<B>) -> Kernels<B> {
    kernels.handle(STEP, |call, settings: Settings| {
        let state = State {
            parameter: call.float()?,
            moment_1: call.float()?,
            moment_2: call.float()?,
        };
        let operands = Operands::new(state, call.float()?, settings)?;
        operands.dtype()?;
        call.answer(results(&operands), || B::adam_w(operands).into())
    })
}

impl AdamWBackend for Remote {
    fn adam_w(
        operands: Tensors<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (results, settings) = (results(&operands), operands.settings());
        send(STEP, operands.into_tensors(), results, &settings).into()
    }
}

/// Describes the tensors that the step changes.
fn results<T: TensorMetadata>(operands: &Operands<T>) -> [Like; 3] {
    [
        operands.parameter(),
        operands.moment_1(),
        operands.moment_2(),
    ]
    .map(like)
}
