//! The remote norm and rotation. Tensors are sent in the order `x`, weight, cosines, sines; without a norm there is no
//! weight. The gradients of tables use RMSNorm's messages, so a server with this operation handles those too.

use super::{
    Backward, Gradients, Operands, QkNormRopeBackend, QkNormRopeKernel, Settings, Tensors,
};
use crate::ops::rms_norm;
use crate::remote::call::{Call, Handled, Like, like, send, send_wanted};
use crate::remote::wire::Malformed;
use crate::remote::{Host, Kernels};
use crate::semantics::{QkNorm, QkNormRopeKey};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Remote, TensorMetadata};

const FORWARD: &str = "burn-kernels/qk_norm_rope";
const BACKWARD: &str = "burn-kernels/qk_norm_rope_backward";

/// Adds the server's handlers of the operation.
pub(crate) fn handlers<B: Host + QkNormRopeKernel>(kernels: Kernels<B>) -> Kernels<B> {
    rms_norm::remote::handlers(kernels)
        .handle(FORWARD, forward)
        .handle(BACKWARD, backward)
}

impl QkNormRopeBackend for Remote {
    fn qk_norm_rope(operands: Tensors<Self>) -> FloatTensor<Self> {
        Self::qk_norm_rope_forward(operands)
    }
}

impl QkNormRopeKernel for Remote {
    fn qk_norm_rope_forward(operands: Tensors<Self>) -> FloatTensor<Self> {
        let (results, numbers) = ([operands.result()], numbers(&operands));
        let [y] = send(FORWARD, operands.into_tensors(), results, &numbers);
        y
    }

    fn qk_norm_rope_backward(
        backward: Backward<FloatTensor<Self>>,
    ) -> Gradients<FloatTensor<Self>> {
        let gradients = gradients(&backward);
        let numbers = (numbers(backward.operands()), backward.weight_gradient());
        let (operands, dy) = backward.into_parts();
        let inputs = std::iter::once(dy).chain(operands.into_tensors());
        let mut gradients = send_wanted(BACKWARD, inputs, gradients, &numbers);
        let mut next = || gradients.next().flatten();
        Gradients {
            x: next().expect("it is always wanted"),
            weight: next(),
        }
    }
}

type Numbers = (QkNormRopeKey, Settings);

fn numbers<T>(operands: &Operands<T>) -> Numbers {
    (operands.key(), operands.settings())
}

/// Describes the gradients to return: of `x` and, if it is wanted, of the weight.
fn gradients<T: TensorMetadata>(backward: &Backward<T>) -> Vec<Option<Like>> {
    let operands = backward.operands();
    let weight = operands.weight().filter(|_| backward.weight_gradient());
    [Some(operands.x()), weight]
        .map(|tensor| tensor.map(like))
        .into()
}

fn read<B: BackendIr>(
    call: &mut Call<'_, B>,
    (key, settings): Numbers,
) -> Result<Tensors<B>, Malformed> {
    let x = call.float()?;
    let weight = (key.norm != QkNorm::None).then(|| call.float());
    let weight = weight.transpose()?;
    let tables = [call.float()?, call.float()?];
    let operands = Operands::new(x, weight, tables, settings, key)?;
    operands.dtype()?;
    Ok(operands)
}

fn forward<B: Host + QkNormRopeKernel>(call: &mut Call<'_, B>, numbers: Numbers) -> Handled {
    let operands = read(call, numbers)?;
    call.answer([operands.result()], || [B::qk_norm_rope_forward(operands)])
}

fn backward<B: Host + QkNormRopeKernel>(
    call: &mut Call<'_, B>,
    (numbers, weight_gradient): (Numbers, bool),
) -> Handled {
    let dy = call.float()?;
    let backward = read(call, numbers)?.backward(dy, weight_gradient)?;
    call.answer_wanted(gradients(&backward), || {
        let gradients = B::qk_norm_rope_backward(backward);
        [Some(gradients.x), gradients.weight]
    })
}
