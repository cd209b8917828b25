//! The remote experts of a mixture. Tensors are sent in the order tokens, indices, routing weights, weights; backward,
//! the gradient of the result and the kept tensor come first.

use crate::ops::moe::experts::{
    Backward, ExpertsBackend, ExpertsKernel, Gradients, Operands, Settings, Tensors, Wanted,
};
use crate::remote::call::{Call, Handled, Like, like, send_wanted};
use crate::remote::wire::Malformed;
use crate::remote::{Host, Kernels};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Remote, Shape, TensorMetadata};

const FORWARD: &str = "burn-kernels/experts";
const BACKWARD: &str = "burn-kernels/experts_backward";

/// Adds the server's handlers of the operation.
pub(crate) fn handlers<B: Host + ExpertsKernel>(kernels: Kernels<B>) -> Kernels<B> {
    kernels.handle(FORWARD, forward).handle(BACKWARD, backward)
}

impl ExpertsBackend for Remote {
    fn experts(operands: Tensors<Self>) -> FloatTensor<Self> {
        Self::experts_forward(operands, false).0
    }
}

impl ExpertsKernel for Remote {
    fn experts_forward(
        operands: Tensors<Self>,
        keep: bool,
    ) -> (FloatTensor<Self>, Option<FloatTensor<Self>>) {
        let lengths: Vec<_> = operands.weights().iter().map(Vec::len).collect();
        let numbers = (operands.settings(), lengths, keep);
        let (inputs, results) = (in_order(&operands), results(&operands, keep));
        let mut results = send_wanted(FORWARD, inputs, results, &numbers);
        let mut next = || results.next().flatten();
        (next().expect("it is always wanted"), next())
    }

    fn experts_backward(
        backward: Backward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> Gradients<FloatTensor<Self>> {
        let (operands, wanted) = (backward.operands(), backward.wanted());
        let first = [backward.dy(), backward.kept()].into_iter().cloned();
        let inputs = first.chain(in_order(operands));
        let numbers = (operands.settings(), wanted);
        let mut gradients = send_wanted(BACKWARD, inputs, gradients(&backward), &numbers);
        let (x, routing) = (gradients.next().flatten(), gradients.next().flatten());
        let groups = wanted.weights.iter().map(Vec::len);
        let weights = groups.map(|length| gradients.by_ref().take(length).collect());
        Gradients {
            x,
            routing,
            weights: weights.collect(),
        }
    }
}

fn in_order(operands: &Tensors<Remote>) -> impl Iterator<Item = FloatTensor<Remote>> {
    [operands.x(), operands.indices(), operands.routing()]
        .into_iter()
        .chain(operands.weights().iter().flatten())
        .cloned()
}

/// Describes the result and, if `keep`, the kept tensor with one row for each slot. Slots without an expert
/// have no row, so the server may keep fewer.
fn results<F: TensorMetadata, I: TensorMetadata>(
    operands: &Operands<F, I>,
    keep: bool,
) -> Vec<Option<Like>> {
    let y = like(operands.x());
    let kept = keep.then(|| {
        let rows = operands.indices().shape().num_elements();
        (Shape::new([rows, 2 * operands.width()]), y.1)
    });
    vec![Some(y), kept]
}

/// Describes the wanted gradients: of tokens, of routing weights and of each weight.
fn gradients<F: TensorMetadata, I>(backward: &Backward<F, I>) -> Vec<Option<Like>> {
    let (operands, wanted) = (backward.operands(), backward.wanted());
    let weights = operands.weights().iter().flatten();
    let first = [
        (operands.x(), wanted.x),
        (operands.routing(), wanted.routing),
    ];
    first
        .into_iter()
        .chain(weights.zip(wanted.weights.iter().flatten().copied()))
        .map(|(tensor, wanted)| wanted.then(|| like(tensor)))
        .collect()
}

/// Reads operands whose groups of weights have these lengths.
fn read<B: BackendIr>(
    call: &mut Call<'_, B>,
    settings: Settings,
    lengths: impl IntoIterator<Item = usize>,
) -> Result<Tensors<B>, Malformed> {
    let (x, indices, routing) = (call.float()?, call.int()?, call.float()?);
    let groups = lengths.into_iter().map(|length| call.weights(length));
    let weights = groups.collect::<Result<_, _>>()?;
    let operands = Operands::new(x, indices, routing, weights, settings)?;
    operands.dtype()?;
    Ok(operands)
}

fn forward<B: Host + ExpertsKernel>(
    call: &mut Call<'_, B>,
    (settings, lengths, keep): (Settings, Vec<usize>, bool),
) -> Handled {
    let operands = read(call, settings, lengths)?;
    call.answer_wanted(results(&operands, keep), || {
        let (y, kept) = B::experts_forward(operands, keep);
        [Some(y), kept]
    })
}

fn backward<B: Host + ExpertsKernel>(
    call: &mut Call<'_, B>,
    (settings, wanted): (Settings, Wanted),
) -> Handled {
    let (dy, kept) = (call.float()?, call.float()?);
    let lengths = wanted.weights.iter().map(Vec::len);
    let backward = read(call, settings, lengths)?.backward(dy, kept, wanted)?;
    call.answer_wanted(gradients(&backward), || {
        let gradients = B::experts_backward(backward);
        let weights = gradients.weights.into_iter().flatten();
        [gradients.x, gradients.routing].into_iter().chain(weights)
    })
}
