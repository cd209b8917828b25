//! Autodiff steps for operations on a variable number of tensors.

use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, NodeId, Ops, OpsKind, Step,
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Shape, TensorMetadata};
use burn::tensor::FloatDType;

/// Makes one node of the autodiff graph that depends on all the tensors. An operation of
/// Burn's autodiff has a number of parents that is fixed at compile time. An operation with
/// one parent per expert takes this node as its only parent instead, and registers the
/// gradients of the tensors by their own ids with [`register_joined`]. The step of this node
/// runs before the steps of the tensors, so their gradients are complete by then.
///
/// # Panics
/// Panics if there are no tensors.
pub(crate) fn join<'t, B: Backend, C: CheckpointStrategy>(
    tensors: impl IntoIterator<Item = &'t FloatTensor<Autodiff<B, C>>>,
) -> FloatTensor<Autodiff<B, C>> {
    let tensors: Vec<_> = tensors.into_iter().collect();
    let (device, dtype) = (tensors[0].device(), FloatDType::from(tensors[0].dtype()));
    let mut joined: Option<FloatTensor<Autodiff<B, C>>> = None;
    for chunk in tensors.chunks(JOINED - 1) {
        // A slot without a tensor repeats one; this step registers no gradient for it.
        let nodes: [_; JOINED] = std::array::from_fn(|i| match (i, &joined) {
            (0, Some(before)) => before.node(),
            _ => chunk[i.saturating_sub(1).min(chunk.len() - 1)].node(),
        });
        let chained = joined.is_some();
        let nothing = B::float_zeros(Shape::new(NOTHING), &device, dtype);
        joined = Some(match Join.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(chained, nothing),
            OpsKind::UnTracked(prep) => prep.finish(nothing),
        });
    }
    joined.expect("there are tensors")
}

/// The shape of the tensors of joint nodes, which nothing reads. They have an element because Burn's fusion puts an empty
/// tensor into one kernel with others, and then computes none of them.
const NOTHING: [usize; 1] = [1];

/// The number of parents of a joint node.
const JOINED: usize = 8;

#[derive(Debug)]
struct Join;

impl<B: Backend> Step<B, JOINED> for Join {
    /// True if the first parent is the previous joint node, whose step needs a gradient.
    type State = bool;

    fn backward(self, ops: Ops<bool, JOINED>, grads: &mut Grads, _: &mut Checkpointer) {
        let nothing = grads.consume::<B>(&ops.node);
        let [before, ..] = ops.parents;
        if let (true, Some(node)) = (ops.state, before) {
            grads.register::<B>(node.id, nothing);
        }
    }
}

/// Registers the gradients of tensors that were [joined](join), and a gradient of zero for the
/// joint node. Does nothing if the joint node is not tracked.
pub(crate) fn register_joined<B: Backend>(
    grads: &mut Grads,
    joint: Option<NodeId>,
    nodes: impl IntoIterator<Item = NodeId>,
    gradients: impl IntoIterator<Item = Option<FloatTensor<B>>>,
    like: &FloatTensor<B>,
) {
    let Some(joint) = joint else { return };
    for (node, gradient) in nodes.into_iter().zip(gradients) {
        if let Some(gradient) = gradient {
            grads.register::<B>(node, gradient);
        }
    }
    let dtype = FloatDType::from(like.dtype());
    let nothing = B::float_zeros(Shape::new(NOTHING), &like.device(), dtype);
    grads.register::<B>(joint, nothing);
}
