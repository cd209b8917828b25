use super::{Backward, Operands, Projected};
use crate::ops::operands::{array, checked};
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, NodeId, Ops, OpsKind, Step, recompute,
    register, traced,
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

/// The operands of a call as tensors of a backend.
pub type Tensors<B> = Operands<FloatTensor<B>>;

/// Gated linear units as an operation of a Burn backend.
#[backend_extension(
    Flex: cfg(feature = "cpu"),
    Cube: cfg(feature = "gpu"),
    Remote: cfg(feature = "remote"),
    Autodiff,
)]
pub trait GluBackend: Backend {
    /// Returns the result, which has the shape of the gate.
    ///
    /// # Panics
    /// Panics if the tensors have different dtypes, or a dtype that kernels don't take.
    fn glu(#[extension_type] operands: Tensors<Self>) -> FloatTensor<Self>;
}

/// The kernels of gated linear units of a backend, forward and backward.
pub trait GluKernel: Backend {
    /// Returns the result, with the shape and dtype of the gate.
    ///
    /// # Panics
    /// Panics if the tensors have different dtypes, or a dtype that kernels don't take.
    fn glu_forward(operands: Tensors<Self>) -> FloatTensor<Self>;

    /// Returns the gradients, laid out as the tensors.
    fn glu_backward(backward: Backward<FloatTensor<Self>>) -> Projected<FloatTensor<Self>>;
}

#[derive(Debug)]
struct Glu;

impl<B: GluKernel, const N: usize> Step<B, N> for Glu {
    /// The tensors. The result and intermediate values are not kept.
    type State = Operands<NodeId>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Grads,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = grads.consume::<B>(&ops.node);
        let operands = ops.state.map(|id| checkpointer.retrieve_node_output(id));
        let gradients = B::glu_backward(checked(operands.backward(dy)));
        for (node, gradient) in ops.parents.into_iter().zip(gradients.into_tensors()) {
            register!(B, grads, node, gradient);
        }
    }
}

impl<B: GluKernel, C: CheckpointStrategy> GluBackend for Autodiff<B, C> {
    fn glu(operands: Tensors<Self>) -> FloatTensor<Self> {
        match operands.projected() {
            Projected::Separate { .. } => record::<B, C, 2>(operands),
            Projected::Packed(_) => record::<B, C, 1>(operands),
        }
    }
}

/// Runs the kernel and records its gradient.
fn record<B: GluKernel, C: CheckpointStrategy, const N: usize>(
    operands: Tensors<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes: [_; N] = array(operands.tensors().map(|tensor| tensor.node()));
    let ids = operands.as_ref().map(|tensor| tensor.node().id());
    let again = recompute::<B, _>(move |read| B::glu_forward(ids.clone().map(read)));
    let prepared = traced(Glu, super::KERNEL.id)
        .prepare::<C>(nodes)
        .memory_bound();
    let prepared = prepared.retro_forward(again).parents(operands.tensors());
    match prepared.stateful() {
        OpsKind::Tracked(mut prep) => {
            let ids = operands.as_ref().map(|tensor| prep.checkpoint(tensor));
            let y = B::glu_forward(operands.map(|tensor| tensor.into_primitive()));
            prep.finish(ids, y)
        }
        OpsKind::UnTracked(prep) => {
            let y = B::glu_forward(operands.map(|tensor| tensor.into_primitive()));
            prep.finish(y)
        }
    }
}
