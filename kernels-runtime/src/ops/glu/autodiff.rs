use crate::semantics::GluKey;
use burn::backend::autodiff::{
    Autodiff, NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

/// SwiGLU as an operation of a Burn backend.
#[backend_extension(Flex: cfg(feature = "cpu"), Autodiff)]
pub trait SwigluBackend: Backend {
    /// `gate` and `up` are of one shape and dtype, and so is the result.
    fn swiglu(gate: FloatTensor<Self>, up: FloatTensor<Self>, key: GluKey) -> FloatTensor<Self>;
}

/// A backend's SwiGLU kernels, forward and backward.
pub trait SwigluKernel: Backend {
    /// The result, like `gate` and `up`.
    fn swiglu_forward(
        gate: FloatTensor<Self>,
        up: FloatTensor<Self>,
        key: GluKey,
    ) -> FloatTensor<Self>;

    /// The gradients of `gate` and `up`.
    fn swiglu_backward(
        dy: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        up: FloatTensor<Self>,
        key: GluKey,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

#[derive(Debug)]
struct Swiglu;

impl<B: SwigluKernel> Backward<B, 2> for Swiglu {
    /// `gate`, `up` and the key: the result is not kept, nor anything in between.
    type State = (NodeId, NodeId, GluKey);

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (gate, up, key) = ops.state;
        let [gate_node, up_node] = ops.parents;
        let dy = grads.consume::<B>(&ops.node);
        let (d_gate, d_up) = B::swiglu_backward(
            dy,
            checkpointer.retrieve_node_output(gate),
            checkpointer.retrieve_node_output(up),
            key,
        );
        if let Some(node) = gate_node {
            grads.register::<B>(node.id, d_gate);
        }
        if let Some(node) = up_node {
            grads.register::<B>(node.id, d_up);
        }
    }
}

impl<B: SwigluKernel, C: CheckpointStrategy> SwigluBackend for Autodiff<B, C> {
    fn swiglu(gate: FloatTensor<Self>, up: FloatTensor<Self>, key: GluKey) -> FloatTensor<Self> {
        match Swiglu
            .prepare::<C>([gate.node(), up.node()])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(mut prep) => {
                let state = (prep.checkpoint(&gate), prep.checkpoint(&up), key);
                let y = B::swiglu_forward(gate.into_primitive(), up.into_primitive(), key);
                prep.finish(state, y)
            }
            OpsKind::UnTracked(prep) => {
                let y = B::swiglu_forward(gate.into_primitive(), up.into_primitive(), key);
                prep.finish(y)
            }
        }
    }
}
