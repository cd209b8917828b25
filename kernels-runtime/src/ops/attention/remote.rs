//! The remote attention. Tensors are sent in the order `q`, `k`, `v`, bias, sinks; those that the key does not have are
//! left out.

use crate::ops::attention::{
    AttentionBackend, AttentionKernel, Backward, Gradients, Lengths, Operands, Settings, Tensors,
};
use crate::remote::call::{Call, Handled, Like, like, send, send_wanted};
use crate::remote::wire::Malformed;
use crate::remote::{Host, Kernels};
use crate::semantics::{AttentionBias, AttentionKey, Sinks};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Remote, TensorMetadata};

const FORWARD: &str = "burn-kernels/attention";
const BACKWARD: &str = "burn-kernels/attention_backward";

/// Adds the server's handlers of the operation.
pub(crate) fn handlers<B: Host + AttentionKernel>(kernels: Kernels<B>) -> Kernels<B> {
    kernels.handle(FORWARD, forward).handle(BACKWARD, backward)
}

impl AttentionBackend for Remote {
    fn attention(operands: Tensors<Self>) -> FloatTensor<Self> {
        Self::attention_inference(operands)
    }
}

impl AttentionKernel for Remote {
    fn attention_forward(operands: Tensors<Self>) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let results = [result(&operands), operands.lse()];
        let numbers = numbers(&operands);
        send(FORWARD, operands.into_tensors(), results, &numbers).into()
    }

    /// Sends the same call. The server sees that `lse` is not wanted.
    fn attention_inference(operands: Tensors<Self>) -> FloatTensor<Self> {
        let (results, numbers) = ([result(&operands)], numbers(&operands));
        let [y] = send(FORWARD, operands.into_tensors(), results, &numbers);
        y
    }

    fn attention_backward(backward: Backward<FloatTensor<Self>>) -> Gradients<FloatTensor<Self>> {
        let gradients = gradients(&backward);
        let numbers = (numbers(backward.operands()), backward.bias_gradient());
        let (operands, dy, y, lse) = backward.into_parts();
        let inputs = [dy, y, lse].into_iter().chain(operands.into_tensors());
        let mut gradients = send_wanted(BACKWARD, inputs, gradients, &numbers);
        let mut next = || gradients.next().flatten();
        let [q, k, v] = [(); 3].map(|()| next().expect("it is always wanted"));
        Gradients {
            q,
            k,
            v,
            bias: next(),
            sinks: next(),
        }
    }
}

type Numbers = (AttentionKey, Settings, Lengths);

fn numbers<T>(operands: &Operands<T>) -> Numbers {
    (operands.key(), operands.settings(), operands.lengths())
}

fn result<T: TensorMetadata>(operands: &Operands<T>) -> Like {
    (operands.result(), operands.q().dtype())
}

/// Describes the gradients to return: of `q`, `k` and `v`, of the bias if it is wanted, and of the sinks.
fn gradients<T: TensorMetadata>(backward: &Backward<T>) -> Vec<Option<Like>> {
    let operands = backward.operands();
    let bias = operands.bias().filter(|_| backward.bias_gradient());
    let [q, k, v] = [operands.q(), operands.k(), operands.v()].map(Some);
    let tensors = [q, k, v, bias, operands.sinks()];
    tensors.map(|tensor| tensor.map(like)).into()
}

fn read<B: BackendIr>(
    call: &mut Call<'_, B>,
    (key, settings, lengths): Numbers,
) -> Result<Tensors<B>, Malformed> {
    let required = [call.float()?, call.float()?, call.float()?];
    let bias = (key.bias == AttentionBias::Additive).then(|| call.float());
    let bias = bias.transpose()?;
    let sinks = (key.sink == Sinks::Learned).then(|| call.float());
    let operands = Operands::new(required, bias, sinks.transpose()?, settings, lengths, key)?;
    operands.dtype()?;
    Ok(operands)
}

fn forward<B: Host + AttentionKernel>(call: &mut Call<'_, B>, numbers: Numbers) -> Handled {
    let operands = read(call, numbers)?;
    if call.wanted() == 1 {
        return call.answer([result(&operands)], || [B::attention_inference(operands)]);
    }
    call.answer([result(&operands), operands.lse()], || {
        B::attention_forward(operands).into()
    })
}

fn backward<B: Host + AttentionKernel>(
    call: &mut Call<'_, B>,
    (numbers, bias_gradient): (Numbers, bool),
) -> Handled {
    let given = [call.float()?, call.float()?, call.float()?];
    let backward = read(call, numbers)?.backward(given, bias_gradient)?;
    call.answer_wanted(gradients(&backward), || {
        let gradients = B::attention_backward(backward);
        let Gradients {
            q,
            k,
            v,
            bias,
            sinks,
        } = gradients;
        [Some(q), Some(k), Some(v), bias, sinks]
    })
}
