use super::{Backward, Operands, composed};
use crate::ops::operands::{array, checked};
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, NodeId, Ops, OpsKind, Step, register, traced,
};
use crate::ops::rms_norm::RmsNormKernel;
use crate::ops::rope::{RopeKernel, TableGradient};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata, backend_extension};

/// The operands of one tensor as tensors of a backend.
pub type Tensors<B> = Operands<FloatTensor<B>>;

/// The norm and rotation of one tensor as an operation of a Burn backend.
#[backend_extension(
    Flex: cfg(feature = "cpu"),
    Cube: cfg(feature = "gpu"),
    Remote: cfg(feature = "remote"),
    Autodiff,
)]
pub trait QkNormRopeBackend: Backend {
    /// Returns the result, with the dtype of `x`, in the layout that the key states.
    ///
    /// # Panics
    /// Panics if kernels don't take the dtype of `x`, or if the other tensors' dtypes don't fit it.
    fn qk_norm_rope(#[extension_type] operands: Tensors<Self>) -> FloatTensor<Self>;
}

/// The gradients that kernels compute.
#[derive(Clone, Debug)]
pub struct Gradients<T> {
    /// The gradient of `x`.
    pub x: T,
    /// The gradient of the weight, if it is wanted.
    pub weight: Option<T>,
}

/// The kernels of a backend, forward and backward.
pub trait QkNormRopeKernel: RmsNormKernel + RopeKernel {
    /// Returns the result, with the dtype of `x`, in the layout that the key states.
    ///
    /// # Panics
    /// Panics as [`QkNormRopeBackend::qk_norm_rope`] does.
    fn qk_norm_rope_forward(operands: Tensors<Self>) -> FloatTensor<Self>;

    /// Returns the gradients of `x` and, if it is wanted, of the weight.
    fn qk_norm_rope_backward(backward: Backward<FloatTensor<Self>>)
    -> Gradients<FloatTensor<Self>>;
}

#[derive(Debug)]
struct QkNormRope;

impl<B: QkNormRopeKernel, const N: usize> Step<B, N> for QkNormRope {
    type State = Operands<NodeId>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Grads,
        checkpointer: &mut Checkpointer,
    ) {
        let has_weight = ops.state.weight().is_some();
        let mut parents = ops.parents.into_iter();
        let mut next = || parents.next().flatten();
        let x_node = next();
        let weight_node = if has_weight { next() } else { None };
        let (cos_node, sin_node) = (next(), next());
        let dy = grads.consume::<B>(&ops.node);
        let operands = ops.state.map(|id| checkpointer.retrieve_node_output(id));
        if cos_node.is_some() || sin_node.is_some() {
            let table = table_gradient::<B>(&dy, &operands);
            if let Some(node) = cos_node {
                grads.register::<B>(node.id, table.of_cos(operands.cos().shape()));
            }
            if let Some(node) = sin_node {
                grads.register::<B>(node.id, table.of_sin(operands.sin().shape()));
            }
        }
        if x_node.is_some() || weight_node.is_some() {
            let backward = checked(operands.backward(dy, weight_node.is_some()));
            let gradients = B::qk_norm_rope_backward(backward);
            register!(B, grads, x_node, gradients.x);
            register!(B, grads, weight_node, gradients.weight);
        }
    }
}

/// The gradients of the tables are those of a rotation of the normalised tensor.
fn table_gradient<B: QkNormRopeKernel>(
    dy: &FloatTensor<B>,
    operands: &Tensors<B>,
) -> TableGradient<B> {
    let normalised = composed::normalised::<B>(operands);
    TableGradient::new(dy, normalised, operands.cos(), operands.key().rope())
}

impl<B: QkNormRopeKernel, C: CheckpointStrategy> QkNormRopeBackend for Autodiff<B, C> {
    fn qk_norm_rope(operands: Tensors<Self>) -> FloatTensor<Self> {
        match operands.weight().is_some() {
            true => record::<B, C, 4>(operands),
            false => record::<B, C, 3>(operands),
        }
    }
}

fn record<B: QkNormRopeKernel, C: CheckpointStrategy, const N: usize>(
    operands: Tensors<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes: [_; N] = array(operands.tensors().map(|tensor| tensor.node()));
    let forward = |operands: Tensors<Autodiff<B, C>>| {
        B::qk_norm_rope_forward(operands.map(|tensor| tensor.into_primitive()))
    };
    match traced(QkNormRope, super::KERNEL.id)
        .prepare::<C>(nodes)
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(mut prep) => {
            let state = operands.as_ref().map(|tensor| prep.checkpoint(tensor));
            prep.finish(state, forward(operands))
        }
        OpsKind::UnTracked(prep) => prep.finish(forward(operands)),
    }
}
