//! The remote linear layer. Tensors are sent in the order `x`, weight, bias; a bias that the key does not have is left
//! out. The gradient of the result comes first, then the gradient of `x` that is added, if any.

use super::{Backward, Gradients, LinearBackend, LinearKernel, Operands, Tensors, Wanted};
use crate::ops::operands::checked;
use crate::remote::call::{Call, Handled, Like, like, send, send_wanted};
use crate::remote::wire::Malformed;
use crate::remote::{Host, Kernels};
use crate::semantics::{LinearKey, Shift};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Remote, TensorMetadata};

const FORWARD: &str = "burn-kernels/linear";
const BACKWARD: &str = "burn-kernels/linear_backward";

/// Adds the server's handlers of the operation.
pub(crate) fn handlers<B: Host + LinearKernel>(kernels: Kernels<B>) -> Kernels<B> {
    kernels.handle(FORWARD, forward).handle(BACKWARD, backward)
}

impl LinearBackend for Remote {
    fn fused_linear(operands: Tensors<Self>) -> FloatTensor<Self> {
        Self::fused_linear_forward(operands)
    }
}

impl LinearKernel for Remote {
    fn fused_linear_forward(operands: Tensors<Self>) -> FloatTensor<Self> {
        let (results, key) = ([result(&operands)], operands.key());
        let [y] = send(FORWARD, operands.into_tensors(), results, &key);
        y
    }

    fn fused_linear_backward(
        backward: Backward<FloatTensor<Self>>,
    ) -> Gradients<FloatTensor<Self>> {
        send_backward(backward, None)
    }

    fn fused_linear_backward_added(
        backward: Backward<FloatTensor<Self>>,
        before: FloatTensor<Self>,
    ) -> Gradients<FloatTensor<Self>> {
        checked(backward.check_before(&before));
        send_backward(backward, Some(before))
    }
}

/// Sends the backward pass. The server adds `before` to the gradient of `x`, as its kernel rounds the sum.
fn send_backward(
    backward: Backward<FloatTensor<Remote>>,
    before: Option<FloatTensor<Remote>>,
) -> Gradients<FloatTensor<Remote>> {
    let gradients = gradients(&backward);
    let numbers: BackwardNumbers = (
        backward.operands().key(),
        *backward.wanted(),
        before.is_some(),
    );
    let (operands, dy, _) = backward.into_parts();
    let inputs = [Some(dy), before].into_iter().flatten();
    let inputs = inputs.chain(operands.into_tensors());
    let mut gradients = send_wanted(BACKWARD, inputs, gradients, &numbers);
    let mut next = || gradients.next().flatten();
    Gradients {
        x: next(),
        weight: next(),
        bias: next(),
    }
}

/// The variant, the gradients that are wanted, and whether a gradient of `x` is added.
type BackwardNumbers = (LinearKey, Wanted, bool);

/// Describes the result.
fn result<T: TensorMetadata>(operands: &Operands<T>) -> Like {
    (operands.result(), operands.x().dtype())
}

/// Describes the wanted gradients.
fn gradients<T: TensorMetadata>(backward: &Backward<T>) -> Vec<Option<Like>> {
    let (operands, wanted) = (backward.operands(), backward.wanted());
    let x = wanted.x.then(|| operands.x());
    let weight = wanted.weight.then(|| operands.weight());
    let bias = operands.bias().filter(|_| wanted.bias);
    [x, weight, bias].map(|tensor| tensor.map(like)).into()
}

fn read<B: BackendIr>(call: &mut Call<'_, B>, key: LinearKey) -> Result<Tensors<B>, Malformed> {
    let (x, weight) = (call.float()?, call.float()?);
    let bias = (key.shift == Shift::Bias).then(|| call.float());
    let operands = Operands::new(x, weight, bias.transpose()?, key)?;
    operands.dtype()?;
    Ok(operands)
}

fn forward<B: Host + LinearKernel>(call: &mut Call<'_, B>, key: LinearKey) -> Handled {
    let operands = read(call, key)?;
    let results = vec![Some(result(&operands))];
    call.answer_wanted(results, || [Some(B::fused_linear_forward(operands))])
}

fn backward<B: Host + LinearKernel>(
    call: &mut Call<'_, B>,
    (key, wanted, added): BackwardNumbers,
) -> Handled {
    let dy = call.float()?;
    let before = added.then(|| call.float()).transpose()?;
    let backward = read(call, key)?.backward(dy, wanted)?;
    if let Some(before) = &before {
        backward.check_before(before)?;
    }
    call.answer_wanted(gradients(&backward), || {
        let gradients = match before {
            Some(before) => B::fused_linear_backward_added(backward, before),
            None => B::fused_linear_backward(backward),
        };
        [gradients.x, gradients.weight, gradients.bias]
    })
}
