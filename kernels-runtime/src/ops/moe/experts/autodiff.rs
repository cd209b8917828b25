use super::super::many::{Many, register};
use super::{Settings, Wanted};
use burn::backend::autodiff::{
    Autodiff, NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};

/// The experts of a mixture as an operation of a Burn backend.
#[backend_extension(Flex: cfg(feature = "cpu"), Remote: cfg(feature = "remote"), Autodiff)]
pub trait ExpertsBackend: Backend {
    /// `x` is `[T, H]`, `indices` and `routing` `[T, k]`; the result is like `x`. `weights` are six
    /// groups: gate (with up, if packed), up, down, and their biases; each is one stacked tensor,
    /// one for each expert, or empty.
    fn experts(
        x: FloatTensor<Self>,
        indices: IntTensor<Self>,
        routing: FloatTensor<Self>,
        #[extension_type] weights: Many<Self>,
        settings: Settings,
    ) -> FloatTensor<Self>;
}

/// The gradients that were wanted, perhaps others.
#[derive(Debug)]
pub struct Gradients<B: Backend> {
    /// Like `x`.
    pub x: Option<FloatTensor<B>>,
    /// Like `routing`.
    pub routing: Option<FloatTensor<B>>,
    /// Like the weights.
    pub weights: Vec<Vec<Option<FloatTensor<B>>>>,
}

/// A backend's kernels for experts, forward and backward.
pub trait ExpertsKernel: Backend {
    /// The result, like `x`, and, if `keep`, what backward needs besides the operands: gate and up
    /// of every routed token, in the order of the experts, `[R, 2I]`.
    fn experts_forward(
        x: FloatTensor<Self>,
        indices: IntTensor<Self>,
        routing: FloatTensor<Self>,
        weights: Many<Self>,
        settings: Settings,
        keep: bool,
    ) -> (FloatTensor<Self>, Option<FloatTensor<Self>>);

    /// The gradients that are wanted.
    #[allow(clippy::too_many_arguments)] // They are what the operation has.
    fn experts_backward(
        dy: FloatTensor<Self>,
        x: FloatTensor<Self>,
        indices: IntTensor<Self>,
        routing: FloatTensor<Self>,
        weights: Many<Self>,
        kept: FloatTensor<Self>,
        settings: Settings,
        wanted: Wanted,
    ) -> Gradients<Self>;
}

#[derive(Debug)]
struct Experts;

/// What backward needs.
#[derive(Clone, Debug)]
struct State<B: Backend> {
    x: NodeId,
    routing: NodeId,
    indices: IntTensor<B>,
    weights: Vec<Vec<NodeId>>,
    tracked: Vec<Vec<bool>>,
    kept: FloatTensor<B>,
    settings: Settings,
}

impl<B: ExpertsKernel> Backward<B, 3> for Experts {
    type State = State<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        grads: &mut grads::Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let state = ops.state;
        let [x_node, routing_node, weights_node] = ops.parents;
        let dy = grads.consume::<B>(&ops.node);
        let weights = state
            .weights
            .iter()
            .map(|group| {
                let output = |id: &NodeId| checkpointer.retrieve_node_output(*id);
                group.iter().map(output).collect()
            })
            .collect();
        let wanted = Wanted {
            x: x_node.is_some(),
            routing: routing_node.is_some(),
            weights: state.tracked,
        };
        let gradients = B::experts_backward(
            dy.clone(),
            checkpointer.retrieve_node_output(state.x),
            state.indices,
            checkpointer.retrieve_node_output(state.routing),
            Many(weights),
            state.kept,
            state.settings,
            wanted,
        );
        if let (Some(node), Some(dx)) = (x_node, gradients.x) {
            grads.register::<B>(node.id, dx);
        }
        if let (Some(node), Some(gradient)) = (routing_node, gradients.routing) {
            grads.register::<B>(node.id, gradient);
        }
        let joint = weights_node.map(|node| node.id);
        register::<B>(grads, joint, state.weights, gradients.weights, &dy);
    }
}

impl<B: ExpertsKernel, C: CheckpointStrategy> ExpertsBackend for Autodiff<B, C> {
    fn experts(
        x: FloatTensor<Self>,
        indices: IntTensor<Self>,
        routing: FloatTensor<Self>,
        weights: Many<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        let joined = weights.join();
        match Experts
            .prepare::<C>([x.node(), routing.node(), joined.node()])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(mut prep) => {
                let nodes = weights.each(|tensor| prep.checkpoint(tensor));
                let tracked = weights.each(|tensor| tensor.is_tracked());
                let (x_node, routing_node) = (prep.checkpoint(&x), prep.checkpoint(&routing));
                let (y, kept) = B::experts_forward(
                    x.into_primitive(),
                    indices.clone(),
                    routing.into_primitive(),
                    weights.into_primitives(),
                    settings,
                    true,
                );
                let state = State {
                    x: x_node,
                    routing: routing_node,
                    indices,
                    weights: nodes,
                    tracked,
                    kept: kept.expect("forward keeps it if asked"),
                    settings,
                };
                prep.finish(state, y)
            }
            OpsKind::UnTracked(prep) => {
                let (y, _) = B::experts_forward(
                    x.into_primitive(),
                    indices,
                    routing.into_primitive(),
                    weights.into_primitives(),
                    settings,
                    false,
                );
                prep.finish(y)
            }
        }
    }
}
