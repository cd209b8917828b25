use super::super::many::{Many, register};
use crate::semantics::ExpertLayout;
use burn::backend::autodiff::{
    Autodiff, NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};

/// Grouped products as an operation of a Burn backend.
#[backend_extension(Flex: cfg(feature = "cpu"), Remote: cfg(feature = "remote"), Autodiff)]
pub trait GroupedMatmulBackend: Backend {
    /// `x` is `[R, K]`, `counts` `[E]`; `weights` are one group, a stacked tensor or one for each
    /// expert. The result is `[R, N]`.
    fn grouped_matmul(
        x: FloatTensor<Self>,
        counts: IntTensor<Self>,
        #[extension_type] weights: Many<Self>,
        layout: ExpertLayout,
    ) -> FloatTensor<Self>;
}

/// A backend's kernels for grouped products, forward and backward.
pub trait GroupedMatmulKernel: Backend {
    /// The result, `[R, N]`.
    fn grouped_matmul_forward(
        x: FloatTensor<Self>,
        counts: IntTensor<Self>,
        weights: Many<Self>,
        layout: ExpertLayout,
    ) -> FloatTensor<Self>;

    /// The gradients of `x`, if `x_gradient`, and of the weights that are `wanted`.
    #[allow(clippy::type_complexity)] // One gradient for each tensor, where they are wanted.
    fn grouped_matmul_backward(
        dy: FloatTensor<Self>,
        x: FloatTensor<Self>,
        counts: IntTensor<Self>,
        weights: Many<Self>,
        layout: ExpertLayout,
        x_gradient: bool,
        wanted: Vec<Vec<bool>>,
    ) -> (
        Option<FloatTensor<Self>>,
        Vec<Vec<Option<FloatTensor<Self>>>>,
    );
}

#[derive(Debug)]
struct GroupedMatmul;

/// What backward needs: the operands.
#[derive(Clone, Debug)]
struct State<B: Backend> {
    x: NodeId,
    counts: IntTensor<B>,
    weights: Vec<Vec<NodeId>>,
    tracked: Vec<Vec<bool>>,
    layout: ExpertLayout,
}

impl<B: GroupedMatmulKernel> Backward<B, 2> for GroupedMatmul {
    type State = State<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let state = ops.state;
        let [x_node, weights_node] = ops.parents;
        let dy = grads.consume::<B>(&ops.node);
        let mut output = |id: &NodeId| checkpointer.retrieve_node_output(*id);
        let weights = state
            .weights
            .iter()
            .map(|group| group.iter().map(&mut output).collect())
            .collect();
        let (dx, dw) = B::grouped_matmul_backward(
            dy.clone(),
            checkpointer.retrieve_node_output(state.x),
            state.counts,
            Many(weights),
            state.layout,
            x_node.is_some(),
            state.tracked,
        );
        if let (Some(node), Some(dx)) = (x_node, dx) {
            grads.register::<B>(node.id, dx);
        }
        let joint = weights_node.map(|node| node.id);
        register::<B>(grads, joint, state.weights, dw, &dy);
    }
}

impl<B: GroupedMatmulKernel, C: CheckpointStrategy> GroupedMatmulBackend for Autodiff<B, C> {
    fn grouped_matmul(
        x: FloatTensor<Self>,
        counts: IntTensor<Self>,
        weights: Many<Self>,
        layout: ExpertLayout,
    ) -> FloatTensor<Self> {
        let joined = weights.join();
        let prep = GroupedMatmul
            .prepare::<C>([x.node(), joined.node()])
            .compute_bound()
            .stateful();
        match prep {
            OpsKind::Tracked(mut prep) => {
                let state = State {
                    x: prep.checkpoint(&x),
                    counts: counts.clone(),
                    weights: weights.each(|tensor| prep.checkpoint(tensor)),
                    tracked: weights.each(|tensor| tensor.is_tracked()),
                    layout,
                };
                let weights = weights.into_primitives();
                let y = B::grouped_matmul_forward(x.into_primitive(), counts, weights, layout);
                prep.finish(state, y)
            }
            OpsKind::UnTracked(prep) => {
                let weights = weights.into_primitives();
                let y = B::grouped_matmul_forward(x.into_primitive(), counts, weights, layout);
                prep.finish(y)
            }
        }
    }
}
