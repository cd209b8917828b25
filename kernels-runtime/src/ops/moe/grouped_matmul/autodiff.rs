use super::{Backward, Operands, Wanted};
use crate::ops::joined::{join, register_joined};
use crate::ops::operands::checked;
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, NodeId, Ops, OpsKind, Step, register,
};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};

/// The operands of a call as tensors of a backend.
pub type Tensors<B> = Operands<FloatTensor<B>, IntTensor<B>>;

/// Grouped products as an operation of a Burn backend.
#[backend_extension(
    Flex: cfg(feature = "cpu"),
    Cube: cfg(feature = "gpu"),
    Remote: cfg(feature = "remote"),
    Autodiff,
)]
pub trait GroupedMatmulBackend: Backend {
    /// Returns the result, `[R, N]`.
    ///
    /// # Panics
    /// Panics if the tensors have different dtypes, or a dtype that kernels don't take. On the CPU, also panics if
    /// counts are negative or their sum exceeds the number of rows.
    fn grouped_matmul(#[extension_type] operands: Tensors<Self>) -> FloatTensor<Self>;
}

/// The gradients. All wanted ones are present; others may be.
#[derive(Clone, Debug)]
pub struct Gradients<T> {
    /// The gradient of `x`.
    pub x: Option<T>,
    /// The gradients of the weights, one entry for each tensor.
    pub weights: Vec<Option<T>>,
}

/// The kernels for grouped products of a backend, forward and backward.
pub trait GroupedMatmulKernel: Backend {
    /// Returns the result, `[R, N]`.
    ///
    /// # Panics
    /// Panics as [`GroupedMatmulBackend::grouped_matmul`] does.
    fn grouped_matmul_forward(operands: Tensors<Self>) -> FloatTensor<Self>;

    /// Returns the wanted gradients.
    ///
    /// # Panics
    /// Panics as [`GroupedMatmulBackend::grouped_matmul`] does.
    fn grouped_matmul_backward(
        backward: Backward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> Gradients<FloatTensor<Self>>;
}

#[derive(Debug)]
struct GroupedMatmul;

/// The state that the backward pass needs.
#[derive(Clone, Debug)]
struct State<B: Backend> {
    operands: Operands<NodeId, IntTensor<B>>,
    tracked: Vec<bool>,
}

impl<B: GroupedMatmulKernel> Step<B, 2> for GroupedMatmul {
    type State = State<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Grads,
        checkpointer: &mut Checkpointer,
    ) {
        let State { operands, tracked } = ops.state;
        let [x_node, weights_node] = ops.parents;
        let dy = grads.consume::<B>(&ops.node);
        let nodes = operands.weights().to_vec();
        let operands = operands.map(|id| checkpointer.retrieve_node_output(id), |ints| ints);
        let wanted = Wanted {
            x: x_node.is_some(),
            weights: tracked,
        };
        let backward = checked(operands.backward(dy.clone(), wanted));
        let gradients = B::grouped_matmul_backward(backward);
        register!(B, grads, x_node, gradients.x);
        let joint = weights_node.map(|node| node.id);
        register_joined::<B>(grads, joint, nodes, gradients.weights, &dy);
    }
}

impl<B: GroupedMatmulKernel, C: CheckpointStrategy> GroupedMatmulBackend for Autodiff<B, C> {
    fn grouped_matmul(operands: Tensors<Self>) -> FloatTensor<Self> {
        let joined = join::<B, C>(operands.weights());
        let nodes = [operands.x().node(), joined.node()];
        let primitives = |operands: Tensors<Self>| {
            B::grouped_matmul_forward(operands.map(|tensor| tensor.into_primitive(), |ints| ints))
        };
        match GroupedMatmul.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let tracked = operands.weights().iter();
                let tracked = tracked.map(|weight| weight.is_tracked()).collect();
                let ids = operands.clone();
                let ids = ids.map(|tensor| prep.checkpoint(&tensor), |ints| ints);
                let state = State {
                    operands: ids,
                    tracked,
                };
                prep.finish(state, primitives(operands))
            }
            OpsKind::UnTracked(prep) => prep.finish(primitives(operands)),
        }
    }
}
