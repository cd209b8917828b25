//! Products of rows grouped by expert. Tensors travel as rows, counts and weights; before them, the
//! gradient of the result.

use crate::ops::moe::grouped_matmul::{
    Backward, Gradients, GroupedMatmulBackend, GroupedMatmulKernel, Operands, Tensors, Wanted,
};
use crate::ops::moe::wire as weights;
use crate::remote::call::{Call, Like, exactly, like, send};
use crate::remote::wire::{Malformed, Writer};
use crate::remote::{Host, Kernels};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Remote, TensorMetadata};

const FORWARD: &str = "burn-kernels/grouped_matmul";
const BACKWARD: &str = "burn-kernels/grouped_matmul_backward";

/// Adds what a server does of it.
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
        let (y, numbers) = (result(&operands), numbers(&operands));
        let [y] = exactly(send(
            FORWARD,
            in_order(&operands).collect(),
            vec![y],
            numbers,
        ));
        y
    }

    fn grouped_matmul_backward(
        backward: Backward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> Gradients<FloatTensor<Self>> {
        let (operands, wanted) = (backward.operands(), backward.wanted());
        let numbers = weights::write_wanted(numbers(operands).flag(wanted.x), &wanted.weights);
        let dy = std::iter::once(backward.dy().clone());
        let inputs = dy.chain(in_order(operands)).collect();
        let mut gradients = send(BACKWARD, inputs, gradients(&backward), numbers).into_iter();
        let mut next = || gradients.next().expect("as many results as were asked for");
        Gradients {
            x: wanted.x.then(&mut next),
            weights: weights::place(&wanted.weights, &mut gradients),
        }
    }
}

fn in_order(operands: &Tensors<Remote>) -> impl Iterator<Item = FloatTensor<Remote>> {
    [operands.x(), operands.counts()]
        .into_iter()
        .chain(operands.weights())
        .cloned()
}

fn numbers<F, I>(operands: &Operands<F, I>) -> Writer {
    let writer = Writer::new().key(&operands.layout());
    writer.number(operands.weights().len())
}

fn result<F: TensorMetadata, I: TensorMetadata>(operands: &Operands<F, I>) -> Like {
    (operands.result(), operands.x().dtype())
}

fn gradients<F: TensorMetadata, I: TensorMetadata>(backward: &Backward<F, I>) -> Vec<Like> {
    let (operands, wanted) = (backward.operands(), backward.wanted());
    let mut gradients: Vec<_> = wanted.x.then(|| like(operands.x())).into_iter().collect();
    gradients.extend(weights::like_wanted(operands.weights(), &wanted.weights));
    gradients
}

fn read<B: BackendIr>(call: &mut Call<'_, B>) -> Result<Tensors<B>, Malformed> {
    let layout = call.scalars.key()?;
    let count = call.scalars.number()?;
    let (x, counts) = (call.float()?, call.int()?);
    let weights: Result<_, _> = (0..count).map(|_| call.weight()).collect();
    let operands = Operands::new(x, counts, weights?, layout)?;
    operands.dtype()?;
    Ok(operands)
}

fn forward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + GroupedMatmulKernel,
{
    let operands = read(call)?;
    call.expect(&[result(&operands)])?;
    call.give(B::grouped_matmul_forward(operands))
}

fn backward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + GroupedMatmulKernel,
{
    let dy = call.float()?;
    let operands = read(call)?;
    let wanted = Wanted {
        x: call.scalars.flag()?,
        weights: weights::read_wanted(call, operands.weights().len())?,
    };
    let flags = wanted.clone();
    let backward = operands.backward(dy, wanted)?;
    call.expect(&gradients(&backward))?;
    let gradients = B::grouped_matmul_backward(backward);
    weights::give(call, [&flags.x], [gradients.x])?;
    weights::give(call, &flags.weights, gradients.weights)
}
