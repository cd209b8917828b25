//! Routers. Tensors travel in the order of the functions' parameters.

use crate::ops::compute_dtype;
use crate::ops::moe::Routing;
use crate::ops::moe::router::{RouterBackend, RouterKernel};
use crate::remote::call::{Call, exactly, like, send};
use crate::remote::wire::{Malformed, Writer};
use crate::semantics::RouterWeights;
use burn::backend::ir::{BackendIr, TensorIr};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Remote, Shape, TensorMetadata};
use burn::tensor::IntDType;

pub(super) const FORWARD: &str = "burn-kernels/route";
pub(super) const BACKWARD: &str = "burn-kernels/route_backward";

impl RouterBackend for Remote {
    fn route(
        logits: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        routing: Routing,
        ints: IntDType,
    ) -> (FloatTensor<Self>, IntTensor<Self>) {
        let shape = Shape::new([logits.shape()[0], routing.top_k()]);
        let weights = match routing.key().weights {
            RouterWeights::Logits => logits.dtype(),
            RouterWeights::Wide => compute_dtype(logits.dtype()),
        };
        let outputs = vec![(shape.clone(), weights), (shape, ints.into())];
        let inputs = vec![logits, bias];
        let [weights, indices] = exactly(send(FORWARD, inputs, outputs, numbers(&routing)));
        (weights, indices)
    }
}

impl RouterKernel for Remote {
    fn route_backward(
        dw: FloatTensor<Self>,
        logits: FloatTensor<Self>,
        indices: IntTensor<Self>,
        routing: Routing,
    ) -> FloatTensor<Self> {
        let outputs = vec![like(&logits)];
        let inputs = vec![dw, logits, indices];
        let [dl] = exactly(send(BACKWARD, inputs, outputs, numbers(&routing)));
        dl
    }
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
pub(super) fn ints(output: Option<&TensorIr>) -> Result<IntDType, Malformed> {
    match output.map(|output| output.dtype) {
        Some(dtype) if dtype.is_int() || dtype.is_uint() => Ok(IntDType::from(dtype)),
        other => Err(Malformed::new(format_args!(
            "a result of integers is asked for as {other:?}"
        ))),
    }
}

pub(super) fn forward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + RouterKernel,
{
    let routing = routing(call)?;
    let (logits, bias) = (call.float()?, call.float()?);
    let ints = ints(call.last_output())?;
    let (weights, indices) = B::route(logits, bias, routing, ints);
    call.give(weights)?;
    call.give_int(indices)
}

pub(super) fn backward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + RouterKernel,
{
    let routing = routing(call)?;
    let (dw, logits) = (call.float()?, call.float()?);
    let dl = B::route_backward(dw, logits, call.int()?, routing);
    call.give(dl)
}
