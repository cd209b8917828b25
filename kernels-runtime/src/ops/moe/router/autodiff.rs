use super::{Backward, Operands, Routing};
use crate::ops::operands::checked;
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, NodeId, Ops, OpsKind, Step, traced,
};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};

/// The operands of a call as tensors of a backend.
pub type Tensors<B> = Operands<FloatTensor<B>>;

/// Routing as an operation of a Burn backend.
#[backend_extension(
    Flex: cfg(feature = "cpu"),
    Cube: cfg(feature = "gpu"),
    Remote: cfg(feature = "remote"),
    Autodiff,
)]
pub trait RouterBackend: Backend {
    /// Returns the weights and the experts of every token, `[tokens, top_k]`.
    ///
    /// # Panics
    /// Panics if the bias does not have the dtype that scores are computed in, or if kernels don't take the dtype of
    /// the logits.
    fn route(#[extension_type] operands: Tensors<Self>) -> (FloatTensor<Self>, IntTensor<Self>);
}

/// The routing kernels of a backend, forward and backward.
pub trait RouterKernel: RouterBackend {
    /// Returns the gradient of the logits.
    ///
    /// # Panics
    /// Panics on the CPU if an index does not belong to an expert. An NPU does not check this, and on a GPU the gradient of
    /// its token is NaN.
    fn route_backward(backward: Backward<FloatTensor<Self>, IntTensor<Self>>) -> FloatTensor<Self>;
}

#[derive(Debug)]
struct Route;

impl<B: RouterKernel> Step<B, 1> for Route {
    /// The logits, the chosen experts and the numbers.
    type State = (NodeId, IntTensor<B>, Routing);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Grads,
        checkpointer: &mut Checkpointer,
    ) {
        let (logits, indices, routing) = ops.state;
        let dw = grads.consume::<B>(&ops.node);
        let logits = checkpointer.retrieve_node_output(logits);
        if let [Some(node)] = ops.parents {
            let backward = checked(Backward::new(dw, logits, indices, routing));
            grads.register::<B>(node.id, B::route_backward(backward));
        }
    }
}

impl<B: RouterKernel, C: CheckpointStrategy> RouterBackend for Autodiff<B, C> {
    fn route(operands: Tensors<Self>) -> (FloatTensor<Self>, IntTensor<Self>) {
        let routing = operands.routing();
        let nodes = [operands.logits().node()];
        let primitives = |operands: Tensors<Self>| operands.map(|tensor| tensor.into_primitive());
        match traced(Route, crate::ops::moe::experts::KERNEL.id)
            .prepare::<C>(nodes)
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(mut prep) => {
                let node = prep.checkpoint(operands.logits());
                let (weights, indices) = B::route(primitives(operands));
                let weights = prep.finish((node, indices.clone(), routing), weights);
                (weights, indices)
            }
            OpsKind::UnTracked(prep) => {
                let (weights, indices) = B::route(primitives(operands));
                (prep.finish(weights), indices)
            }
        }
    }
}
