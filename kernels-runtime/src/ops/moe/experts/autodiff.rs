use super::{Backward, Operands, Wanted};
use crate::ops::joined::{join, register_joined};
use crate::ops::operands::checked;
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, NodeId, Ops, OpsKind, Step, register, traced,
};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};

/// The operands of a call as tensors of a backend.
pub type Tensors<B> = Operands<FloatTensor<B>, IntTensor<B>>;

/// The experts of a mixture as an operation of a Burn backend.
#[backend_extension(
    Flex: cfg(feature = "cpu"),
    Cube: cfg(feature = "gpu"),
    Remote: cfg(feature = "remote"),
    Autodiff,
)]
pub trait ExpertsBackend: Backend {
    /// Returns the result, with the shape and dtype of `x`.
    ///
    /// # Panics
    /// Panics if the tensors have different dtypes (the routing weights may be f32), or a dtype that kernels don't
    /// take. On the CPU, also panics if an index is below 0 or above the number of experts.
    fn experts(#[extension_type] operands: Tensors<Self>) -> FloatTensor<Self>;
}

/// The gradients. All wanted ones are present; others may be.
#[derive(Clone, Debug)]
pub struct Gradients<T> {
    /// The gradient of `x`.
    pub x: Option<T>,
    /// The gradient of `routing`.
    pub routing: Option<T>,
    /// The gradients of the weights, grouped as the weights.
    pub weights: Vec<Vec<Option<T>>>,
}

/// The kernels for experts of a backend, forward and backward.
pub trait ExpertsKernel: Backend {
    /// Returns the result, with the shape and dtype of `x`. If `keep`, also returns the tensor that the backward pass
    /// needs besides the operands: gate and up of every routed token, in the order of the experts, `[R, 2I]`.
    ///
    /// # Panics
    /// Panics as [`ExpertsBackend::experts`] does.
    fn experts_forward(
        operands: Tensors<Self>,
        keep: bool,
    ) -> (FloatTensor<Self>, Option<FloatTensor<Self>>);

    /// Returns the wanted gradients.
    ///
    /// # Panics
    /// Panics as [`ExpertsBackend::experts`] does. On the CPU, also panics if the kept tensor does not have one row for
    /// each routed token.
    fn experts_backward(
        backward: Backward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> Gradients<FloatTensor<Self>>;
}

#[derive(Debug)]
struct Experts;

/// The state that the backward pass needs.
#[derive(Clone, Debug)]
struct State<B: Backend> {
    operands: Operands<NodeId, IntTensor<B>>,
    tracked: Vec<Vec<bool>>,
    kept: FloatTensor<B>,
}

impl<B: ExpertsKernel> Step<B, 3> for Experts {
    type State = State<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        grads: &mut Grads,
        checkpointer: &mut Checkpointer,
    ) {
        let State {
            operands,
            tracked,
            kept,
        } = ops.state;
        let [x_node, routing_node, weights_node] = ops.parents;
        let dy = grads.consume::<B>(&ops.node);
        let nodes: Vec<NodeId> = operands.weights().iter().flatten().copied().collect();
        let operands = operands.map(|id| checkpointer.retrieve_node_output(id), |ints| ints);
        let wanted = Wanted {
            x: x_node.is_some(),
            routing: routing_node.is_some(),
            weights: tracked,
        };
        let backward = checked(operands.backward(dy.clone(), kept, wanted));
        let gradients = B::experts_backward(backward);
        register!(B, grads, x_node, gradients.x);
        register!(B, grads, routing_node, gradients.routing);
        let joint = weights_node.map(|node| node.id);
        let gradients = gradients.weights.into_iter().flatten();
        register_joined::<B>(grads, joint, nodes, gradients, &dy);
    }
}

impl<B: ExpertsKernel, C: CheckpointStrategy> ExpertsBackend for Autodiff<B, C> {
    fn experts(operands: Tensors<Self>) -> FloatTensor<Self> {
        let joined = join::<B, C>(operands.weights().iter().flatten());
        let nodes = [
            operands.x().node(),
            operands.routing().node(),
            joined.node(),
        ];
        let forward = |operands: Tensors<Self>, keep| {
            let operands = operands.map(|tensor| tensor.into_primitive(), |ints| ints);
            B::experts_forward(operands, keep)
        };
        match traced(Experts, super::KERNEL.id)
            .prepare::<C>(nodes)
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(mut prep) => {
                let group = |group: &Vec<FloatTensor<Self>>| {
                    group.iter().map(|tensor| tensor.is_tracked()).collect()
                };
                let tracked = operands.weights().iter().map(group).collect();
                let ids = operands.clone();
                let ids = ids.map(|tensor| prep.checkpoint(&tensor), |ints| ints);
                let (y, kept) = forward(operands, true);
                let state = State {
                    operands: ids,
                    tracked,
                    kept: kept.expect("forward keeps it if asked"),
                };
                prep.finish(state, y)
            }
            OpsKind::UnTracked(prep) => prep.finish(forward(operands, false).0),
        }
    }
}
