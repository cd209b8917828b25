//! The remote RMSNorm. Tensors are sent in the order `x`, weight, gate; those that the key does not have are left out. In the
//! backward pass, the gradient of the result comes first, then `rstd`, then the gradient of `x` that is added, if any.

use crate::ops::operands::checked;
use crate::ops::rms_norm::{
    Backward, Gradients, Operands, RmsNormBackend, RmsNormKernel, Settings, Tensors,
};
use crate::remote::call::{Call, Handled, Like, like, send, send_wanted};
use crate::remote::wire::Malformed;
use crate::remote::{Host, Kernels};
use crate::semantics::{Gating, RmsNormKey, Scale};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Remote, TensorMetadata};

const FORWARD: &str = "burn-kernels/rms_norm";
const BACKWARD: &str = "burn-kernels/rms_norm_backward";

/// Adds the server's handlers of the operation.
pub(crate) fn handlers<B: Host + RmsNormKernel>(kernels: Kernels<B>) -> Kernels<B> {
    kernels.handle(FORWARD, forward).handle(BACKWARD, backward)
}

impl RmsNormBackend for Remote {
    fn rms_norm(operands: Tensors<Self>) -> FloatTensor<Self> {
        let (results, numbers) = ([like(operands.x())], numbers(&operands));
        let [y] = send(FORWARD, operands.into_tensors(), results, &numbers);
        y
    }
}

impl RmsNormKernel for Remote {
    fn rms_norm_forward(operands: Tensors<Self>) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let results = [like(operands.x()), operands.rstd()];
        let numbers = numbers(&operands);
        send(FORWARD, operands.into_tensors(), results, &numbers).into()
    }

    fn rms_norm_backward(backward: Backward<FloatTensor<Self>>) -> Gradients<FloatTensor<Self>> {
        send_backward(backward, None)
    }

    fn rms_norm_backward_added(
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
        numbers(backward.operands()),
        backward.weight_gradient(),
        before.is_some(),
    );
    let (operands, dy, rstd) = backward.into_parts();
    let inputs = [dy, rstd].into_iter().chain(before);
    let inputs = inputs.chain(operands.into_tensors());
    let mut gradients = send_wanted(BACKWARD, inputs, gradients, &numbers);
    let mut next = || gradients.next().flatten();
    Gradients {
        x: next().expect("it is always wanted"),
        weight: next(),
        gate: next(),
    }
}

type Numbers = (RmsNormKey, Settings);

/// Those of the operands, whether the gradient of the weight is wanted, and whether a gradient of `x` is added.
type BackwardNumbers = (Numbers, bool, bool);

fn numbers<T>(operands: &Operands<T>) -> Numbers {
    (operands.key(), operands.settings())
}

/// Describes the gradients to return: of `x`, of the weight if it is wanted, and of the gate.
fn gradients<T: TensorMetadata>(backward: &Backward<T>) -> Vec<Option<Like>> {
    let operands = backward.operands();
    let weight = operands.weight().filter(|_| backward.weight_gradient());
    let tensors = [Some(operands.x()), weight, operands.gate()];
    tensors.map(|tensor| tensor.map(like)).into()
}

fn read<B: BackendIr>(
    call: &mut Call<'_, B>,
    (key, settings): Numbers,
) -> Result<Tensors<B>, Malformed> {
    let x = call.float()?;
    let weight = (key.scale == Scale::Weight).then(|| call.float());
    let weight = weight.transpose()?;
    let gate = (key.gating != Gating::None).then(|| call.float());
    let operands = Operands::new(x, weight, gate.transpose()?, settings, key)?;
    operands.dtype()?;
    Ok(operands)
}

fn forward<B: Host + RmsNormKernel>(call: &mut Call<'_, B>, numbers: Numbers) -> Handled {
    let operands = read(call, numbers)?;
    let rstd = (call.wanted() > 1).then(|| operands.rstd());
    call.answer_wanted(vec![Some(like(operands.x())), rstd], || {
        let (y, rstd) = B::rms_norm_forward(operands);
        [Some(y), Some(rstd)]
    })
}

fn backward<B: Host + RmsNormKernel>(
    call: &mut Call<'_, B>,
    (numbers, weight_gradient, added): BackwardNumbers,
) -> Handled {
    let (dy, rstd) = (call.float()?, call.float()?);
    let before = added.then(|| call.float()).transpose()?;
    let backward = read(call, numbers)?.backward(dy, rstd, weight_gradient)?;
    if let Some(before) = &before {
        backward.check_before(before)?;
    }
    call.answer_wanted(gradients(&backward), || {
        let gradients = match before {
            Some(before) => B::rms_norm_backward_added(backward, before),
            None => B::rms_norm_backward(backward),
        };
        [Some(gradients.x), gradients.weight, gradients.gate]
    })
}
