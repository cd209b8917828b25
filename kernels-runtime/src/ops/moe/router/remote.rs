//! The remote router. Forward, tensors are sent in the order logits, bias (if the key has one); backward, in the order
//! gradient of the weights, logits, indices.

use crate::ops::moe::Routing;
use crate::ops::moe::router::{
    Backward, Operands, RouterBackend, RouterKernel, RoutingError, Tensors, weights_dtype,
};
use crate::remote::call::{Call, Handled, Like, like, send};
use crate::remote::wire::Malformed;
use crate::remote::{Host, Kernels};
use crate::semantics::{Correction, RouterKey};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Remote, Shape, TensorMetadata};
use serde::{Deserialize, Serialize};

const FORWARD: &str = "burn-kernels/route";
const BACKWARD: &str = "burn-kernels/route_backward";

/// Adds the server's handlers of the operation.
pub(crate) fn handlers<B: Host + RouterKernel>(kernels: Kernels<B>) -> Kernels<B> {
    kernels.handle(FORWARD, forward).handle(BACKWARD, backward)
}

impl RouterBackend for Remote {
    fn route(operands: Tensors<Self>) -> (FloatTensor<Self>, IntTensor<Self>) {
        let numbers = numbers(&operands.routing());
        let inputs = operands.tensors().cloned();
        send(FORWARD, inputs, results(&operands), &numbers).into()
    }
}

impl RouterKernel for Remote {
    fn route_backward(backward: Backward<FloatTensor<Self>, IntTensor<Self>>) -> FloatTensor<Self> {
        let results = [like(backward.logits())];
        let inputs = [backward.dw(), backward.logits(), backward.indices()];
        let numbers = numbers(&backward.routing());
        let [dl] = send(BACKWARD, inputs.map(Clone::clone), results, &numbers);
        dl
    }
}

/// Describes the weights and the experts.
fn results<T: TensorMetadata>(operands: &Operands<T>) -> [Like; 2] {
    let (logits, routing) = (operands.logits(), operands.routing());
    let shape = Shape::new([logits.shape()[0], routing.top_k()]);
    let weights = weights_dtype(logits.dtype(), &routing);
    [(shape.clone(), weights), (shape, operands.ints().into())]
}

/// The numbers of a routing. A routing itself is not sent, because it must be checked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Numbers {
    key: RouterKey,
    num_experts: usize,
    top_k: usize,
    groups: [usize; 2],
    scale: f64,
}

fn numbers(routing: &Routing) -> Numbers {
    Numbers {
        key: routing.key(),
        num_experts: routing.num_experts(),
        top_k: routing.top_k(),
        groups: routing.groups(),
        scale: routing.scale(),
    }
}

fn routing(numbers: &Numbers) -> Result<Routing, RoutingError> {
    let routing = Routing::new(numbers.key, numbers.num_experts, numbers.top_k)?;
    let routing = match numbers.groups {
        [1, 1] => routing,
        [groups, chosen] => routing.limited_to_groups(groups, chosen)?,
    };
    routing.scaled(numbers.scale)
}

fn forward<B: Host + RouterKernel>(call: &mut Call<'_, B>, numbers: Numbers) -> Handled {
    let routing = routing(&numbers).map_err(Malformed::new)?;
    let logits = call.float()?;
    let bias = (routing.key().correction == Correction::Bias).then(|| call.float());
    let operands = Operands::new(logits, bias.transpose()?, routing, call.ints_of_result()?)?;
    operands.dtype()?;
    call.expect(&results(&operands))?;
    let (weights, indices) = B::route(operands);
    call.give(weights)?;
    call.give_int(indices)
}

fn backward<B: Host + RouterKernel>(call: &mut Call<'_, B>, numbers: Numbers) -> Handled {
    let routing = routing(&numbers).map_err(Malformed::new)?;
    let (dw, logits) = (call.float()?, call.float()?);
    let backward = Backward::new(dw, logits, call.int()?, routing)?;
    call.answer([like(backward.logits())], || [B::route_backward(backward)])
}
