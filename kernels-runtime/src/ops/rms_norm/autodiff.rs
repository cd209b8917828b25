use crate::semantics::RmsNormKey;
use burn::backend::autodiff::{
    Autodiff, NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

/// RMSNorm as an operation of a Burn backend.
#[backend_extension(Flex: cfg(feature = "cpu"), Autodiff)]
pub trait RmsNormBackend: Backend {
    /// `x` is `[.., n]`, `weight` `[n]`, of one dtype; the result is like `x`.
    fn rms_norm(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        eps: f64,
        key: RmsNormKey,
    ) -> FloatTensor<Self>;
}

/// A backend's RMSNorm kernels, forward and backward.
pub trait RmsNormKernel: Backend {
    /// The result, like `x`, and `rstd`, one value a row in f32 (f64 for f64).
    fn rms_norm_forward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        eps: f64,
        key: RmsNormKey,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The gradients of `x` and, if `weight_gradient`, of `weight`.
    fn rms_norm_backward(
        dy: FloatTensor<Self>,
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        rstd: FloatTensor<Self>,
        key: RmsNormKey,
        weight_gradient: bool,
    ) -> (FloatTensor<Self>, Option<FloatTensor<Self>>);
}

#[derive(Debug)]
struct RmsNorm;

impl<B: RmsNormKernel> Backward<B, 2> for RmsNorm {
    /// `x`, `weight`, `rstd` and the key.
    type State = (NodeId, NodeId, FloatTensor<B>, RmsNormKey);

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (x, weight, rstd, key) = ops.state;
        let [x_node, weight_node] = ops.parents;
        let dy = grads.consume::<B>(&ops.node);
        let (dx, dw) = B::rms_norm_backward(
            dy,
            checkpointer.retrieve_node_output(x),
            checkpointer.retrieve_node_output(weight),
            rstd,
            key,
            weight_node.is_some(),
        );
        if let Some(node) = x_node {
            grads.register::<B>(node.id, dx);
        }
        if let (Some(node), Some(dw)) = (weight_node, dw) {
            grads.register::<B>(node.id, dw);
        }
    }
}

impl<B: RmsNormKernel, C: CheckpointStrategy> RmsNormBackend for Autodiff<B, C> {
    fn rms_norm(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        eps: f64,
        key: RmsNormKey,
    ) -> FloatTensor<Self> {
        match RmsNorm
            .prepare::<C>([x.node(), weight.node()])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(mut prep) => {
                let nodes = (prep.checkpoint(&x), prep.checkpoint(&weight));
                let (y, rstd) =
                    B::rms_norm_forward(x.into_primitive(), weight.into_primitive(), eps, key);
                prep.finish((nodes.0, nodes.1, rstd, key), y)
            }
            OpsKind::UnTracked(prep) => {
                let (y, _) =
                    B::rms_norm_forward(x.into_primitive(), weight.into_primitive(), eps, key);
                prep.finish(y)
            }
        }
    }
}
