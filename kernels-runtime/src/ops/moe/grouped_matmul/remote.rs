//! The remote products of rows grouped by expert. Tensors are sent in the order rows, counts, weights; backward, the
//! gradient of the result comes first.

use crate::ops::moe::grouped_matmul::{
    Backward, Gradients, GroupedMatmulBackend, GroupedMatmulKernel, Operands, Tensors, Wanted,
};
use crate::remote::call::{Call, Handled, Like, like, send, send_wanted};
use crate::remote::wire::Malformed;
use crate::remote::{Host, Kernels};
use crate::semantics::ExpertLayout;
use burn::backend::ir::BackendIr;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Remote, TensorMetadata};

const FORWARD: &str = "burn-kernels/grouped_matmul";
const BACKWARD: &str = "burn-kernels/grouped_matmul_backward";

/// Adds the server's handlers of the operation.
pub(crate) fn handlers<B: Host + GroupedMatmulKernel>(kernels: Kernels<B>) -> Kernels<B> {
    kernels.handle(FORWARD, forward).handle(BACKWARD, backward)
}

impl GroupedMatmulBackend for Remote {
    fn grouped_matmul(operands: Tensors<Self>) -> FloatTensor<Self> {
        Self::grouped_matmul_forward(operands)
    }
}

impl GroupedMatmulKernel for Remote {
    fn grouped_matmul_forward(operands: Tensors<Self>) -> FloatTensor<Self> {
        let numbers = (operands.layout(), operands.weights().len());
        let [y] = send(FORWARD, in_order(&operands), [result(&operands)], &numbers);
        y
    }

    fn grouped_matmul_backward(
        backward: Backward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> Gradients<FloatTensor<Self>> {
        let (operands, wanted) = (backward.operands(), backward.wanted());
        let numbers = (operands.layout(), wanted.x, &wanted.weights);
        let inputs = std::iter::once(backward.dy().clone()).chain(in_order(operands));
        let mut gradients = send_wanted(BACKWARD, inputs, gradients(&backward), &numbers);
        Gradients {
            x: gradients.next().flatten(),
            weights: gradients.collect(),
        }
    }
}

fn in_order(operands: &Tensors<Remote>) -> impl Iterator<Item = FloatTensor<Remote>> {
    [operands.x(), operands.counts()]
        .into_iter()
        .chain(operands.weights())
        .cloned()
}

fn result<F: TensorMetadata, I: TensorMetadata>(operands: &Operands<F, I>) -> Like {
    (operands.result(), operands.x().dtype())
}

/// Describes the wanted gradients: of `x` and of each weight.
fn gradients<F: TensorMetadata, I>(backward: &Backward<F, I>) -> Vec<Option<Like>> {
    let (operands, wanted) = (backward.operands(), backward.wanted());
    let x = wanted.x.then(|| like(operands.x()));
    let weights = operands.weights().iter().zip(&wanted.weights);
    let weights = weights.map(|(weight, wanted)| wanted.then(|| like(weight)));
    std::iter::once(x).chain(weights).collect()
}

fn read<B: BackendIr>(
    call: &mut Call<'_, B>,
    layout: ExpertLayout,
    weights: usize,
) -> Result<Tensors<B>, Malformed> {
    let (x, counts, weights) = (call.float()?, call.int()?, call.weights(weights)?);
    let operands = Operands::new(x, counts, weights, layout)?;
    operands.dtype()?;
    Ok(operands)
}

fn forward<B: Host + GroupedMatmulKernel>(
    call: &mut Call<'_, B>,
    (layout, weights): (ExpertLayout, usize),
) -> Handled {
    let operands = read(call, layout, weights)?;
    call.answer([result(&operands)], || {
        [B::grouped_matmul_forward(operands)]
    })
}

fn backward<B: Host + GroupedMatmulKernel>(
    call: &mut Call<'_, B>,
    (layout, x, weights): (ExpertLayout, bool, Vec<bool>),
) -> Handled {
    let dy = call.float()?;
    let operands = read(call, layout, weights.len())?;
    let backward = operands.backward(dy, Wanted { x, weights })?;
    call.answer_wanted(gradients(&backward), || {
        let gradients = B::grouped_matmul_backward(backward);
        std::iter::once(gradients.x).chain(gradients.weights)
    })
}
