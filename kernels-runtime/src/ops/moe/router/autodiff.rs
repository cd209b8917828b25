use super::Routing;
use burn::backend::autodiff::{
    Autodiff, NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};
use burn::tensor::IntDType;

/// Routing as an operation of a Burn backend.
#[backend_extension(Flex: cfg(feature = "cpu"), Remote: cfg(feature = "remote"), Autodiff)]
pub trait RouterBackend: Backend {
    /// The weights and the experts of every token. `logits` is `[tokens, experts]`; `bias` is
    /// `[experts]` in f32 (f64 for f64 logits), or `[0]` if the key has no correction. The experts
    /// are of type `ints`.
    fn route(
        logits: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        routing: Routing,
        ints: IntDType,
    ) -> (FloatTensor<Self>, IntTensor<Self>);
}

/// A backend's routing kernels, forward and backward.
pub trait RouterKernel: RouterBackend {
    /// The gradient of the logits. `dw` is that of the weights, `indices` the experts chosen.
    fn route_backward(
        dw: FloatTensor<Self>,
        logits: FloatTensor<Self>,
        indices: IntTensor<Self>,
        routing: Routing,
    ) -> FloatTensor<Self>;
}

#[derive(Debug)]
struct Route;

impl<B: RouterKernel> Backward<B, 1> for Route {
    /// The logits, the experts chosen and the numbers.
    type State = (NodeId, IntTensor<B>, Routing);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (logits, indices, routing) = ops.state;
        let dw = grads.consume::<B>(&ops.node);
        let logits = checkpointer.retrieve_node_output(logits);
        if let [Some(node)] = ops.parents {
            grads.register::<B>(node.id, B::route_backward(dw, logits, indices, routing));
        }
    }
}

impl<B: RouterKernel, C: CheckpointStrategy> RouterBackend for Autodiff<B, C> {
    fn route(
        logits: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        routing: Routing,
        ints: IntDType,
    ) -> (FloatTensor<Self>, IntTensor<Self>) {
        let bias = bias.into_primitive();
        match Route
            .prepare::<C>([logits.node()])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(mut prep) => {
                let node = prep.checkpoint(&logits);
                let (weights, indices) = B::route(logits.into_primitive(), bias, routing, ints);
                let weights = prep.finish((node, indices.clone(), routing), weights);
                (weights, indices)
            }
            OpsKind::UnTracked(prep) => {
                let (weights, indices) = B::route(logits.into_primitive(), bias, routing, ints);
                (prep.finish(weights), indices)
            }
        }
    }
}
