use super::Operands;
use super::table_gradient::TableGradient;
use crate::ops::operands::{array, checked};
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, NodeId, Ops, OpsKind, Step, traced,
};
use crate::semantics::RopeKey;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata, backend_extension};

/// The operands of a call as tensors of a backend.
pub type Tensors<B> = Operands<FloatTensor<B>>;

/// Rotary position embedding as an operation of a Burn backend.
#[backend_extension(
    Flex: cfg(feature = "cpu"),
    Cube: cfg(feature = "gpu"),
    Remote: cfg(feature = "remote"),
    Autodiff,
)]
pub trait RopeBackend: Backend {
    /// Returns the result, with the shape and dtype of `x`.
    ///
    /// # Panics
    /// Panics if kernels don't take the dtype of `x`, or if the tables don't both have that dtype or both the one
    /// that `x` is computed in.
    fn rope(#[extension_type] operands: Tensors<Self>) -> FloatTensor<Self>;
}

/// The rotary kernels of a backend, forward and backward.
pub trait RopeKernel: Backend {
    /// Returns the result, with the shape and dtype of `x`.
    ///
    /// # Panics
    /// Panics as [`RopeBackend::rope`] does.
    fn rope_forward(operands: Tensors<Self>) -> FloatTensor<Self>;

    /// Returns the gradient of `x`. The operands hold the gradient of the result in place of `x`.
    ///
    /// # Panics
    /// Panics as [`RopeBackend::rope`] does.
    fn rope_backward(operands: Tensors<Self>) -> FloatTensor<Self>;
}

#[derive(Debug)]
struct Rope;

/// The state that the backward pass needs.
#[derive(Clone, Debug)]
struct State {
    /// `x`, kept only if a table needs a gradient.
    x: Option<NodeId>,
    cos: NodeId,
    sin: NodeId,
    key: RopeKey,
}

impl<B: RopeKernel> Step<B, 3> for Rope {
    type State = State;

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        grads: &mut Grads,
        checkpointer: &mut Checkpointer,
    ) {
        let State { x, cos, sin, key } = ops.state;
        let [x_node, cos_node, sin_node] = ops.parents;
        let dy = grads.consume::<B>(&ops.node);
        let cos: FloatTensor<B> = checkpointer.retrieve_node_output(cos);
        let sin: FloatTensor<B> = checkpointer.retrieve_node_output(sin);
        if let Some(x) = x {
            let x: FloatTensor<B> = checkpointer.retrieve_node_output(x);
            let table = TableGradient::<B>::new(&dy, x, &cos, key);
            if let Some(node) = cos_node {
                grads.register::<B>(node.id, table.of_cos(cos.shape()));
            }
            if let Some(node) = sin_node {
                grads.register::<B>(node.id, table.of_sin(sin.shape()));
            }
        }
        if let Some(node) = x_node {
            let operands = checked(Operands::new(dy, cos, sin, key));
            grads.register::<B>(node.id, B::rope_backward(operands));
        }
    }
}

impl<B: RopeKernel, C: CheckpointStrategy> RopeBackend for Autodiff<B, C> {
    fn rope(operands: Tensors<Self>) -> FloatTensor<Self> {
        let table_gradient = operands.cos().is_tracked() || operands.sin().is_tracked();
        let nodes = array(operands.tensors().map(|tensor| tensor.node()));
        let key = operands.key();
        let primitives = |operands: Tensors<Self>| operands.map(|tensor| tensor.into_primitive());
        match traced(Rope, super::KERNEL.id)
            .prepare::<C>(nodes)
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(mut prep) => {
                let state = State {
                    x: table_gradient.then(|| prep.checkpoint(operands.x())),
                    cos: prep.checkpoint(operands.cos()),
                    sin: prep.checkpoint(operands.sin()),
                    key,
                };
                prep.finish(state, B::rope_forward(primitives(operands)))
            }
            OpsKind::UnTracked(prep) => prep.finish(B::rope_forward(primitives(operands))),
        }
    }
}
