use super::{Backward, Operands};
use crate::ops::operands::checked;
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, NodeId, Ops, OpsKind, Step, traced,
};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};

/// The operands of a call as tensors of a backend.
pub type Tensors<B> = Operands<FloatTensor<B>, IntTensor<B>>;

/// The cross-entropy as an operation of a Burn backend.
#[backend_extension(
    Flex: cfg(feature = "cpu"),
    Cube: cfg(feature = "gpu"),
    Remote: cfg(feature = "remote"),
    Autodiff,
)]
pub trait CrossEntropyBackend: Backend {
    /// Returns the loss.
    ///
    /// # Panics
    /// Panics if kernels don't take the dtype of the logits. On the CPU, also panics if a target is neither a class nor
    /// the ignored index.
    fn cross_entropy(#[extension_type] operands: Tensors<Self>) -> FloatTensor<Self>;
}

/// The kernels for the cross-entropy of a backend, forward and backward.
pub trait CrossEntropyKernel: Backend {
    /// Returns the loss and `lse`, the logarithm of each token's sum of exponentials, `[tokens]` in f32 (f64 for f64
    /// logits). `lse` of an ignored token is 0. It is empty if the backward pass computes it again.
    ///
    /// # Panics
    /// Panics as [`CrossEntropyBackend::cross_entropy`] does.
    fn cross_entropy_forward(operands: Tensors<Self>) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// Returns the gradient of the logits.
    ///
    /// # Panics
    /// Panics as [`CrossEntropyBackend::cross_entropy`] does. On the CPU, also panics if `lse` is missing.
    fn cross_entropy_backward(
        backward: Backward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> FloatTensor<Self>;
}

#[derive(Debug)]
struct CrossEntropy;

#[derive(Clone, Debug)]
struct State<B: Backend> {
    operands: Operands<NodeId, IntTensor<B>>,
    lse: FloatTensor<B>,
}

impl<B: CrossEntropyKernel> Step<B, 1> for CrossEntropy {
    type State = State<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Grads,
        checkpointer: &mut Checkpointer,
    ) {
        let State { operands, lse } = ops.state;
        let dy = grads.consume::<B>(&ops.node);
        let operands = operands.map(|id| checkpointer.retrieve_node_output(id), |ints| ints);
        if let [Some(node)] = ops.parents {
            let backward = checked(operands.backward(dy, lse));
            grads.register::<B>(node.id, B::cross_entropy_backward(backward));
        }
    }
}

impl<B: CrossEntropyKernel, C: CheckpointStrategy> CrossEntropyBackend for Autodiff<B, C> {
    fn cross_entropy(operands: Tensors<Self>) -> FloatTensor<Self> {
        let nodes = [operands.logits().node()];
        let forward = |operands: Tensors<Self>| {
            B::cross_entropy_forward(operands.map(|tensor| tensor.into_primitive(), |ints| ints))
        };
        match traced(CrossEntropy, super::KERNEL.id)
            .prepare::<C>(nodes)
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(mut prep) => {
                let ids = operands.clone();
                let ids = ids.map(|tensor| prep.checkpoint(&tensor), |ints| ints);
                let (loss, lse) = forward(operands);
                let state = State { operands: ids, lse };
                prep.finish(state, loss)
            }
            OpsKind::UnTracked(prep) => prep.finish(forward(operands).0),
        }
    }
}
