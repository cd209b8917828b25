//! The experts of a mixture. Tensors travel as tokens, indices, routing weights and weights; before
//! them, the gradient of the result and what forward kept.

use crate::ops::moe::experts::{
    Backward, ExpertsBackend, ExpertsKernel, Gradients, Operands, Settings, Tensors, Wanted,
};
use crate::ops::moe::wire as weights;
use crate::remote::call::{Call, Like, like, send};
use crate::remote::wire::{Malformed, Writer};
use crate::remote::{Host, Kernels};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Remote, Shape, TensorMetadata};

const FORWARD: &str = "burn-kernels/experts";
const BACKWARD: &str = "burn-kernels/experts_backward";

/// Adds what a server does of it.
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
        let numbers = numbers(&operands).flag(keep);
        let outputs = results(&operands, keep);
        let inputs = in_order(&operands).collect();
        let mut results = send(FORWARD, inputs, outputs, numbers).into_iter();
        let mut next = || results.next().expect("as many results as were asked for");
        (next(), keep.then(next))
    }

    fn experts_backward(
        backward: Backward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> Gradients<FloatTensor<Self>> {
        let (operands, wanted) = (backward.operands(), backward.wanted());
        let numbers = numbers(operands).flag(wanted.x).flag(wanted.routing);
        let numbers = weights::write_wanted(numbers, wanted.weights.iter().flatten());
        let first = [backward.dy(), backward.kept()].into_iter().cloned();
        let inputs = first.chain(in_order(operands)).collect();
        let mut gradients = send(BACKWARD, inputs, gradients(&backward), numbers).into_iter();
        let mut next = || gradients.next().expect("as many results as were asked for");
        Gradients {
            x: wanted.x.then(&mut next),
            routing: wanted.routing.then(&mut next),
            weights: wanted
                .weights
                .iter()
                .map(|group| weights::place(group, &mut gradients))
                .collect(),
        }
    }
}

fn in_order(operands: &Tensors<Remote>) -> impl Iterator<Item = FloatTensor<Remote>> {
    [operands.x(), operands.indices(), operands.routing()]
        .into_iter()
        .chain(operands.weights().iter().flatten())
        .cloned()
}

fn numbers<F, I>(operands: &Operands<F, I>) -> Writer {
    let settings = operands.settings();
    let writer = Writer::new()
        .key(&settings.key)
        .optional_float(settings.limit);
    weights::write(writer, operands.weights())
}

/// The result and, if `keep`, what is kept of as many rows as there are slots. Slots that no expert
/// takes have no row, so the server may keep less.
fn results<F: TensorMetadata, I: TensorMetadata>(
    operands: &Operands<F, I>,
    keep: bool,
) -> Vec<Like> {
    let y = like(operands.x());
    let kept = keep.then(|| {
        let rows = operands.indices().shape().num_elements();
        (Shape::new([rows, 2 * operands.width()]), y.1)
    });
    std::iter::once(y.clone()).chain(kept).collect()
}

/// The gradients that are wanted.
fn gradients<F: TensorMetadata, I: TensorMetadata>(backward: &Backward<F, I>) -> Vec<Like> {
    let (operands, wanted) = (backward.operands(), backward.wanted());
    let mut gradients: Vec<_> = wanted.x.then(|| like(operands.x())).into_iter().collect();
    gradients.extend(wanted.routing.then(|| like(operands.routing())));
    let weights = operands.weights().iter().flatten();
    gradients.extend(weights::like_wanted(
        weights,
        wanted.weights.iter().flatten(),
    ));
    gradients
}

fn read<B: BackendIr>(call: &mut Call<'_, B>) -> Result<Tensors<B>, Malformed> {
    let settings = Settings {
        key: call.scalars.key()?,
        limit: call.scalars.optional_float()?,
    };
    let (x, indices, routing) = (call.float()?, call.int()?, call.float()?);
    let weights = weights::read(call)?;
    let operands = Operands::new(x, indices, routing, weights, settings)?;
    operands.dtype()?;
    Ok(operands)
}

fn forward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + ExpertsKernel,
{
    let operands = read(call)?;
    let keep = call.scalars.flag()?;
    call.expect(&results(&operands, keep))?;
    let (y, kept) = B::experts_forward(operands, keep);
    call.give(y)?;
    match kept.filter(|_| keep) {
        Some(kept) => call.give(kept),
        None => Ok(()),
    }
}

fn backward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + ExpertsKernel,
{
    let (dy, kept) = (call.float()?, call.float()?);
    let operands = read(call)?;
    let (x, routing) = (call.scalars.flag()?, call.scalars.flag()?);
    let groups = operands.weights().iter();
    let of_weights: Result<Vec<_>, _> = groups
        .map(|group| weights::read_wanted(call, group.len()))
        .collect();
    let wanted = Wanted {
        x,
        routing,
        weights: of_weights?,
    };
    let flags = wanted.clone();
    let backward = operands.backward(dy, kept, wanted)?;
    call.expect(&gradients(&backward))?;
    let gradients = B::experts_backward(backward);
    weights::give(
        call,
        [&flags.x, &flags.routing],
        [gradients.x, gradients.routing],
    )?;
    let weights = gradients.weights.into_iter().flatten();
    weights::give(call, flags.weights.iter().flatten(), weights)
}
