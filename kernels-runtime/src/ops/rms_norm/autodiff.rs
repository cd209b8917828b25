use super::Settings;
use crate::ops::Optional;
use crate::semantics::{Gating, RmsNormKey, Scale};
use burn::backend::autodiff::{
    Autodiff, NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

/// RMSNorm as an operation of a Burn backend.
#[backend_extension(Flex: cfg(feature = "cpu"), Remote: cfg(feature = "remote"), Autodiff)]
pub trait RmsNormBackend: Backend {
    /// `x` and `gate` are `[.., n]`, `weight` `[n]`, of one dtype; `weight` and `gate` are there if
    /// the key says so. The result is like `x`.
    fn rms_norm(
        x: FloatTensor<Self>,
        #[extension_type] weight: Optional<Self>,
        #[extension_type] gate: Optional<Self>,
        settings: Settings,
        key: RmsNormKey,
    ) -> FloatTensor<Self>;
}

/// The tensors of a call on a backend.
#[derive(Clone, Debug)]
pub struct Tensors<B: Backend> {
    /// `[.., n]`.
    pub x: FloatTensor<B>,
    /// `[n]`.
    pub weight: Option<FloatTensor<B>>,
    /// Like `x`.
    pub gate: Option<FloatTensor<B>>,
}

/// The gradients of [`Tensors`]; those of tensors that are not there, or not wanted, are `None`.
#[derive(Clone, Debug)]
pub struct TensorGradients<B: Backend> {
    /// Of `x`.
    pub x: FloatTensor<B>,
    /// Of the weight.
    pub weight: Option<FloatTensor<B>>,
    /// Of the gate.
    pub gate: Option<FloatTensor<B>>,
}

/// A backend's RMSNorm kernels, forward and backward.
pub trait RmsNormKernel: Backend {
    /// The result, like `x`, and `rstd`, one value a row or group in f32 (f64 for f64).
    fn rms_norm_forward(
        tensors: Tensors<Self>,
        settings: Settings,
        key: RmsNormKey,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The gradients of `x`, of the gate and, if `weight_gradient`, of the weight.
    fn rms_norm_backward(
        dy: FloatTensor<Self>,
        tensors: Tensors<Self>,
        rstd: FloatTensor<Self>,
        settings: Settings,
        key: RmsNormKey,
        weight_gradient: bool,
    ) -> TensorGradients<Self>;
}

/// What a call has of `x`, weight and gate, in this order, by the key.
fn arrange<T>(key: RmsNormKey, items: impl IntoIterator<Item = T>) -> (T, Option<T>, Option<T>) {
    let mut items = items.into_iter();
    let mut next = || items.next().expect("as many operands as the key has");
    let x = next();
    let weight = (key.scale == Scale::Weight).then(&mut next);
    let gate = (key.gating != Gating::None).then(&mut next);
    (x, weight, gate)
}

impl<B: Backend> Tensors<B> {
    fn of<const N: usize>(tensors: [FloatTensor<B>; N], key: RmsNormKey) -> Self {
        let (x, weight, gate) = arrange(key, tensors);
        Self { x, weight, gate }
    }
}

#[derive(Debug)]
struct RmsNorm;

#[derive(Clone, Debug)]
struct State<B: Backend, const N: usize> {
    tensors: [NodeId; N],
    rstd: FloatTensor<B>,
    settings: Settings,
    key: RmsNormKey,
}

impl<B: RmsNormKernel, const N: usize> Backward<B, N> for RmsNorm {
    type State = State<B, N>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let State {
            tensors,
            rstd,
            settings,
            key,
        } = ops.state;
        let (x_node, weight_node, gate_node) = arrange(key, ops.parents);
        let (weight_node, gate_node) = (weight_node.flatten(), gate_node.flatten());
        let dy = grads.consume::<B>(&ops.node);
        let tensors = tensors.map(|id| checkpointer.retrieve_node_output(id));
        let gradients = B::rms_norm_backward(
            dy,
            Tensors::of(tensors, key),
            rstd,
            settings,
            key,
            weight_node.is_some(),
        );
        if let Some(node) = x_node {
            grads.register::<B>(node.id, gradients.x);
        }
        if let (Some(node), Some(gradient)) = (weight_node, gradients.weight) {
            grads.register::<B>(node.id, gradient);
        }
        if let (Some(node), Some(gradient)) = (gate_node, gradients.gate) {
            grads.register::<B>(node.id, gradient);
        }
    }
}

impl<B: RmsNormKernel, C: CheckpointStrategy> RmsNormBackend for Autodiff<B, C> {
    fn rms_norm(
        x: FloatTensor<Self>,
        weight: Optional<Self>,
        gate: Optional<Self>,
        settings: Settings,
        key: RmsNormKey,
    ) -> FloatTensor<Self> {
        match (weight, gate) {
            (Optional::None, Optional::None) => record::<B, C, 1>([x], settings, key),
            (Optional::Some(one), Optional::None) | (Optional::None, Optional::Some(one)) => {
                record::<B, C, 2>([x, one], settings, key)
            }
            (Optional::Some(weight), Optional::Some(gate)) => {
                record::<B, C, 3>([x, weight, gate], settings, key)
            }
        }
    }
}

/// Runs the kernel and records its gradient. Kept are the tensors and `rstd`.
fn record<B: RmsNormKernel, C: CheckpointStrategy, const N: usize>(
    tensors: [FloatTensor<Autodiff<B, C>>; N],
    settings: Settings,
    key: RmsNormKey,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes = tensors.each_ref().map(|tensor| tensor.node());
    match RmsNorm.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let ids = tensors.each_ref().map(|tensor| prep.checkpoint(tensor));
            let primitives = tensors.map(|tensor| tensor.into_primitive());
            let (y, rstd) = B::rms_norm_forward(Tensors::of(primitives, key), settings, key);
            let state = State {
                tensors: ids,
                rstd,
                settings,
                key,
            };
            prep.finish(state, y)
        }
        OpsKind::UnTracked(prep) => {
            let primitives = tensors.map(|tensor| tensor.into_primitive());
            let (y, _) = B::rms_norm_forward(Tensors::of(primitives, key), settings, key);
            prep.finish(y)
        }
    }
}
