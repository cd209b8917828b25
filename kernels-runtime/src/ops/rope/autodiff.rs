use super::table_gradient::TableGradient;
use crate::semantics::RopeKey;
use burn::backend::autodiff::{
    Autodiff, NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

/// Rotary position embedding as an operation of a Burn backend.
#[backend_extension(Flex: cfg(feature = "cpu"), Remote: cfg(feature = "remote"), Autodiff)]
pub trait RopeBackend: Backend {
    /// `x` is `[b, h, s, d]` or `[b, s, h, d]` as the key says, `cos` and `sin` `[1 or b, s, w]` of
    /// its dtype or the one it is computed in; the result is like `x`.
    fn rope(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        key: RopeKey,
    ) -> FloatTensor<Self>;
}

/// A backend's rotary kernels, forward and backward.
pub trait RopeKernel: Backend {
    /// The result, like `x`.
    fn rope_forward(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        key: RopeKey,
    ) -> FloatTensor<Self>;

    /// The gradient of `x`.
    fn rope_backward(
        dy: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        key: RopeKey,
    ) -> FloatTensor<Self>;
}

#[derive(Debug)]
struct Rope;

/// What the backward pass needs.
#[derive(Clone, Debug)]
struct State {
    /// Kept only if a table needs a gradient.
    x: Option<NodeId>,
    cos: NodeId,
    sin: NodeId,
    key: RopeKey,
}

impl<B: RopeKernel> Backward<B, 3> for Rope {
    type State = State;

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        grads: &mut Gradients,
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
                grads.register::<B>(node.id, table.of_cos());
            }
            if let Some(node) = sin_node {
                grads.register::<B>(node.id, table.of_sin());
            }
        }
        if let Some(node) = x_node {
            grads.register::<B>(node.id, B::rope_backward(dy, cos, sin, key));
        }
    }
}

impl<B: RopeKernel, C: CheckpointStrategy> RopeBackend for Autodiff<B, C> {
    fn rope(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        key: RopeKey,
    ) -> FloatTensor<Self> {
        let table_gradient = cos.is_tracked() || sin.is_tracked();
        match Rope
            .prepare::<C>([x.node(), cos.node(), sin.node()])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(mut prep) => {
                let state = State {
                    x: table_gradient.then(|| prep.checkpoint(&x)),
                    cos: prep.checkpoint(&cos),
                    sin: prep.checkpoint(&sin),
                    key,
                };
                prep.finish(state, forward(x, cos, sin, key))
            }
            OpsKind::UnTracked(prep) => prep.finish(forward(x, cos, sin, key)),
        }
    }
}

fn forward<B: RopeKernel>(
    x: FloatTensor<Autodiff<B>>,
    cos: FloatTensor<Autodiff<B>>,
    sin: FloatTensor<Autodiff<B>>,
    key: RopeKey,
) -> FloatTensor<B> {
    B::rope_forward(
        x.into_primitive(),
        cos.into_primitive(),
        sin.into_primitive(),
        key,
    )
}
