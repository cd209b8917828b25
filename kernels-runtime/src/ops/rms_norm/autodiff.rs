use super::{Backward, Operands, Parts};
use crate::ops::operands::{array, checked};
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, NodeId, Ops, OpsKind, Step, recompute,
    register, register_and_remember, take_registered, traced,
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

/// The operands of a call as tensors of a backend.
pub type Tensors<B> = Operands<FloatTensor<B>>;

/// RMSNorm as an operation of a Burn backend.
#[backend_extension(
    Flex: cfg(feature = "cpu"),
    Cube: cfg(feature = "gpu"),
    Remote: cfg(feature = "remote"),
    Autodiff,
)]
pub trait RmsNormBackend: Backend {
    /// Returns the result, with the shape and dtype of `x`.
    ///
    /// # Panics
    /// Panics if the tensors have different dtypes, or a dtype that kernels don't take.
    fn rms_norm(#[extension_type] operands: Tensors<Self>) -> FloatTensor<Self>;
}

/// The gradients of [`Operands`]. The gradients of tensors that are missing or not wanted are `None`.
pub type Gradients<T> = Parts<T>;

/// The RMSNorm kernels of a backend, forward and backward.
pub trait RmsNormKernel: Backend {
    /// Returns the result, with the shape and dtype of `x`, and `rstd`, one value for each row or group in f32
    /// (f64 for f64 tensors).
    ///
    /// # Panics
    /// Panics if the tensors have different dtypes, or a dtype that kernels don't take.
    fn rms_norm_forward(operands: Tensors<Self>) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// Returns the gradients of `x`, of the gate and, if it is wanted, of the weight.
    fn rms_norm_backward(backward: Backward<FloatTensor<Self>>) -> Gradients<FloatTensor<Self>>;

    /// Returns the gradients. `before`, the gradient of `x` by other operations, is added to that of `x`.
    ///
    /// # Panics
    /// Panics if `before` does not have the shape and dtype of `x`.
    fn rms_norm_backward_added(
        backward: Backward<FloatTensor<Self>>,
        before: FloatTensor<Self>,
    ) -> Gradients<FloatTensor<Self>> {
        checked(backward.check_before(&before));
        let gradients = Self::rms_norm_backward(backward);
        Gradients {
            x: Self::float_add(gradients.x, before),
            ..gradients
        }
    }
}

#[derive(Debug)]
struct RmsNorm;

#[derive(Clone, Debug)]
struct State<B: Backend> {
    operands: Operands<NodeId>,
    rstd: FloatTensor<B>,
}

impl<B: RmsNormKernel, const N: usize> Step<B, N> for RmsNorm {
    type State = State<B>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Grads,
        checkpointer: &mut Checkpointer,
    ) {
        let State { operands, rstd } = ops.state;
        let mut parents = ops.parents.into_iter();
        let mut next = || parents.next().flatten();
        let dy = grads.consume::<B>(&ops.node);
        let has_weight = operands.weight().is_some();
        let operands = operands.map(|id| checkpointer.retrieve_node_output(id));
        let x_node = next();
        let weight_node = if has_weight { next() } else { None };
        let backward = checked(operands.backward(dy, rstd, weight_node.is_some()));
        let gradients = match take_registered!(B, grads, x_node) {
            Some(before) => B::rms_norm_backward_added(backward, before),
            None => B::rms_norm_backward(backward),
        };
        let gate_node = next();
        register_and_remember!(B, grads, x_node, gradients.x);
        register!(B, grads, weight_node, gradients.weight);
        register!(B, grads, gate_node, gradients.gate);
    }
}

impl<B: RmsNormKernel, C: CheckpointStrategy> RmsNormBackend for Autodiff<B, C> {
    fn rms_norm(operands: Tensors<Self>) -> FloatTensor<Self> {
        record::<B, C>(operands, B::rms_norm_forward)
    }
}

/// Runs a kernel that returns the result and `rstd`, and records the gradient. Keeps the tensors and `rstd`.
pub(in crate::ops) fn record<B: RmsNormKernel, C: CheckpointStrategy>(
    operands: Tensors<Autodiff<B, C>>,
    forward: impl FnOnce(Tensors<B>) -> (FloatTensor<B>, FloatTensor<B>),
) -> FloatTensor<Autodiff<B, C>> {
    match operands.tensors().count() {
        1 => record_of::<B, C, 1>(operands, forward),
        2 => record_of::<B, C, 2>(operands, forward),
        _ => record_of::<B, C, 3>(operands, forward),
    }
}

fn record_of<B: RmsNormKernel, C: CheckpointStrategy, const N: usize>(
    operands: Tensors<Autodiff<B, C>>,
    forward: impl FnOnce(Tensors<B>) -> (FloatTensor<B>, FloatTensor<B>),
) -> FloatTensor<Autodiff<B, C>> {
    let nodes: [_; N] = array(operands.tensors().map(|tensor| tensor.node()));
    let ids = operands.as_ref().map(|tensor| tensor.node().id());
    let again = recompute::<B, _>(move |read| B::rms_norm_forward(ids.clone().map(read)).0);
    let prepared = traced(RmsNorm, super::KERNEL.id)
        .prepare::<C>(nodes)
        .memory_bound();
    let prepared = prepared.retro_forward(again).parents(operands.tensors());
    match prepared.stateful() {
        OpsKind::Tracked(mut prep) => {
            let ids = operands.as_ref().map(|tensor| prep.checkpoint(tensor));
            let (y, rstd) = forward(operands.map(|tensor| tensor.into_primitive()));
            let state = State {
                operands: ids,
                rstd,
            };
            prep.finish(state, y)
        }
        OpsKind::UnTracked(prep) => {
            let (y, _) = forward(operands.map(|tensor| tensor.into_primitive()));
            prep.finish(y)
        }
    }
}
