//! Routers. Tensors travel as logits and bias, if the key has one, and as the gradient of the weights,
//! logits and indices.

use crate::ops::moe::Routing;
use crate::ops::moe::router::{
    Backward, Operands, RouterBackend, RouterKernel, Tensors, weights_dtype,
};
use crate::remote::call::{Call, Like, exactly, like, send};
use crate::remote::wire::{Malformed, Writer};
use crate::remote::{Host, Kernels};
use crate::semantics::Correction;
use burn::backend::ir::{BackendIr, TensorIr};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Remote, Shape, TensorMetadata};
use burn::tensor::IntDType;

const FORWARD: &str = "burn-kernels/route";
const BACKWARD: &str = "burn-kernels/route_backward";

/// Adds what a server does of it.
pub(crate) fn handlers<B: Host + RouterKernel>(kernels: Kernels<B>) -> Kernels<B> {
    kernels.handle(FORWARD, forward).handle(BACKWARD, backward)
}

impl RouterBackend for Remote {
    fn route(operands: Tensors<Self>) -> (FloatTensor<Self>, IntTensor<Self>) {
        let (outputs, numbers) = (results(&operands), numbers(&operands.routing()));
        let inputs = operands.tensors().cloned().collect();
        let [weights, indices] = exactly(send(FORWARD, inputs, outputs, numbers));
        (weights, indices)
    }
}

impl RouterKernel for Remote {
    fn route_backward(backward: Backward<FloatTensor<Self>, IntTensor<Self>>) -> FloatTensor<Self> {
        let outputs = vec![like(backward.logits())];
        let inputs = [backward.dw(), backward.logits(), backward.indices()];
        let inputs = inputs.map(Clone::clone).into();
        let [dl] = exactly(send(
            BACKWARD,
            inputs,
            outputs,
            numbers(&backward.routing()),
        ));
        dl
    }
}

/// The weights and the experts.
fn results<T: TensorMetadata>(operands: &Operands<T>) -> Vec<Like> {
    let (logits, routing) = (operands.logits(), operands.routing());
    let shape = Shape::new([logits.shape()[0], routing.top_k()]);
    let weights = weights_dtype(logits.dtype(), &routing);
    vec![(shape.clone(), weights), (shape, operands.ints().into())]
}

fn numbers(routing: &Routing) -> Writer {
    let [groups, chosen] = routing.groups();
    Writer::new()
        .key(&routing.key())
        .number(routing.num_experts())
        .number(routing.top_k())
        .number(groups)
        .number(chosen)
        .float(routing.scale())
}

fn routing<B: BackendIr>(call: &mut Call<'_, B>) -> Result<Routing, Malformed> {
    let key = call.scalars.key()?;
    let (num_experts, top_k) = (call.scalars.number()?, call.scalars.number()?);
    let (groups, chosen) = (call.scalars.number()?, call.scalars.number()?);
    let scale = call.scalars.float()?;
    let routing = Routing::new(key, num_experts, top_k).map_err(Malformed::new)?;
    let routing = match (groups, chosen) {
        (1, 1) => routing,
        _ => routing
            .limited_to_groups(groups, chosen)
            .map_err(Malformed::new)?,
    };
    routing.scaled(scale).map_err(Malformed::new)
}

/// The integers that the client expects of a result.
pub(crate) fn ints(output: Option<&TensorIr>) -> Result<IntDType, Malformed> {
    match output.map(|output| output.dtype) {
        Some(dtype) if dtype.is_int() || dtype.is_uint() => Ok(IntDType::from(dtype)),
        other => Err(Malformed::new(format_args!(
            "a result of integers is asked for as {other:?}"
        ))),
    }
}

fn forward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + RouterKernel,
{
    let routing = routing(call)?;
    let logits = call.float()?;
    let bias = (routing.key().correction == Correction::Bias).then(|| call.float());
    let ints = ints(call.last_output())?;
    let operands = Operands::new(logits, bias.transpose()?, routing, ints)?;
    operands.dtype()?;
    call.expect(&results(&operands))?;
    let (weights, indices) = B::route(operands);
    call.give(weights)?;
    call.give_int(indices)
}

fn backward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + RouterKernel,
{
    let routing = routing(call)?;
    let (dw, logits) = (call.float()?, call.float()?);
    let backward = Backward::new(dw, logits, call.int()?, routing)?;
    call.expect(&[like(backward.logits())])?;
    call.give(B::route_backward(backward))
}
