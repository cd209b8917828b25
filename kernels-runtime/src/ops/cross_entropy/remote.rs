//! The remote cross-entropy. Tensors are sent in the order logits, targets; backward, the gradient of the loss and `lse`
//! come first.

use super::{
    BYTES_OF_A_TOKEN, Backward, CrossEntropyBackend, CrossEntropyKernel, Operands, Settings,
    Tensors,
};
use crate::remote::call::{Call, Handled, like, send};
use crate::remote::wire::Malformed;
use crate::remote::{Host, Kernels};
use crate::semantics::CrossEntropyKey;
use burn::backend::Remote;
use burn::backend::ir::BackendIr;
use burn::backend::tensor::{FloatTensor, IntTensor};

const FORWARD: &str = "burn-kernels/cross_entropy";
const BACKWARD: &str = "burn-kernels/cross_entropy_backward";

/// Adds the server's handlers of the operation.
pub(crate) fn handlers<B: Host + CrossEntropyKernel>(kernels: Kernels<B>) -> Kernels<B> {
    kernels.handle(FORWARD, forward).handle(BACKWARD, backward)
}

impl CrossEntropyBackend for Remote {
    fn cross_entropy(operands: Tensors<Self>) -> FloatTensor<Self> {
        let results = [operands.result()];
        let [loss] = send(FORWARD, in_order(&operands), results, &numbers(&operands));
        loss
    }
}

impl CrossEntropyKernel for Remote {
    fn cross_entropy_forward(operands: Tensors<Self>) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let results = [operands.result(), operands.lse()];
        send(FORWARD, in_order(&operands), results, &numbers(&operands)).into()
    }

    fn cross_entropy_backward(
        backward: Backward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> FloatTensor<Self> {
        let operands = backward.operands();
        let first = [backward.dy(), backward.lse()].map(Clone::clone);
        let inputs = first.into_iter().chain(in_order(operands));
        let results = [like(operands.logits())];
        let [d_logits] = send(BACKWARD, inputs, results, &numbers(operands));
        d_logits
    }
}

type Numbers = (CrossEntropyKey, Settings);

fn numbers<F, I>(operands: &Operands<F, I>) -> Numbers {
    (operands.key(), operands.settings())
}

fn in_order(operands: &Tensors<Remote>) -> [FloatTensor<Remote>; 2] {
    [operands.logits(), operands.targets()].map(Clone::clone)
}

fn read<B: BackendIr>(
    call: &mut Call<'_, B>,
    (key, settings): Numbers,
) -> Result<Tensors<B>, Malformed> {
    let operands = Operands::new(call.float()?, call.int()?, settings, key)?;
    operands.dtype()?;
    let [tokens, _] = operands.sizes();
    call.room(tokens.saturating_mul(BYTES_OF_A_TOKEN));
    Ok(operands)
}

fn forward<B: Host + CrossEntropyKernel>(call: &mut Call<'_, B>, numbers: Numbers) -> Handled {
    let operands = read(call, numbers)?;
    let lse = (call.wanted() > 1).then(|| operands.lse());
    call.answer_wanted(vec![Some(operands.result()), lse], || {
        let (loss, lse) = B::cross_entropy_forward(operands);
        [Some(loss), Some(lse)]
    })
}

fn backward<B: Host + CrossEntropyKernel>(call: &mut Call<'_, B>, numbers: Numbers) -> Handled {
    let (dy, lse) = (call.float()?, call.float()?);
    let backward = read(call, numbers)?.backward(dy, lse)?;
    call.answer([like(backward.operands().logits())], || {
        [B::cross_entropy_backward(backward)]
    })
}
