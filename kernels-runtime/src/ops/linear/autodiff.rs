use super::{Backward, Operands, Wanted};
use crate::ops::operands::{array, checked};
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, NodeId, Ops, OpsKind, Step, register,
    register_and_remember, take_registered, traced,
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

/// The operands of a call as tensors of a backend.
pub type Tensors<B> = Operands<FloatTensor<B>>;

/// A linear layer as an operation of a Burn backend.
#[backend_extension(Flex: cfg(feature = "cpu"), Remote: cfg(feature = "remote"), Autodiff)]
pub trait LinearBackend: Backend {
    /// Returns the result, `[.., outputs]` in the dtype of `x`.
    ///
    /// # Panics
    /// Panics if the tensors have different dtypes, or a dtype that kernels don't take.
    fn fused_linear(#[extension_type] operands: Tensors<Self>) -> FloatTensor<Self>;
}

/// The gradients of [`Operands`]. The gradients of tensors that are missing or not wanted are `None`.
#[derive(Clone, Debug)]
pub struct Gradients<T> {
    /// The gradient of `x`.
    pub x: Option<T>,
    /// The gradient of the weight.
    pub weight: Option<T>,
    /// The gradient of the bias.
    pub bias: Option<T>,
}

/// The kernels of a linear layer of a backend, forward and backward.
pub trait LinearKernel: Backend {
    /// Returns the result, `[.., outputs]` in the dtype of `x`.
    ///
    /// # Panics
    /// Panics if the tensors have different dtypes, or a dtype that kernels don't take.
    fn fused_linear_forward(operands: Tensors<Self>) -> FloatTensor<Self>;

    /// Returns the wanted gradients.
    fn fused_linear_backward(backward: Backward<FloatTensor<Self>>)
    -> Gradients<FloatTensor<Self>>;

    /// Returns the wanted gradients. `before`, the gradient of `x` by other operations, is added to that of `x`, which is
    /// wanted.
    ///
    /// # Panics
    /// Panics if the gradient of `x` is not wanted, or if `before` does not have the shape and dtype of `x`.
    fn fused_linear_backward_added(
        backward: Backward<FloatTensor<Self>>,
        before: FloatTensor<Self>,
    ) -> Gradients<FloatTensor<Self>> {
        checked(backward.check_before(&before));
        let gradients = Self::fused_linear_backward(backward);
        Gradients {
            x: gradients.x.map(|x| Self::float_add(x, before)),
            ..gradients
        }
    }
}

#[derive(Debug)]
struct Linear;

impl<B: LinearKernel, const N: usize> Step<B, N> for Linear {
    type State = Operands<NodeId>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Grads,
        checkpointer: &mut Checkpointer,
    ) {
        let mut parents = ops.parents.into_iter();
        let [x, weight, bias] = [(); 3].map(|()| parents.next().flatten());
        let dy = grads.consume::<B>(&ops.node);
        let operands = ops
            .state
            .map(|id| checkpointer.retrieve_node_output::<FloatTensor<B>>(id));
        let wanted = Wanted {
            x: x.is_some(),
            weight: weight.is_some(),
            bias: bias.is_some(),
        };
        let backward = checked(operands.backward(dy, wanted));
        let gradients = match take_registered!(B, grads, x) {
            Some(before) => B::fused_linear_backward_added(backward, before),
            None => B::fused_linear_backward(backward),
        };
        register_and_remember!(B, grads, x, gradients.x);
        register!(B, grads, weight, gradients.weight);
        register!(B, grads, bias, gradients.bias);
    }
}

impl<B: LinearKernel, C: CheckpointStrategy> LinearBackend for Autodiff<B, C> {
    fn fused_linear(operands: Tensors<Self>) -> FloatTensor<Self> {
        match operands.bias() {
            Some(_) => record::<B, C, 3>(operands),
            None => record::<B, C, 2>(operands),
        }
    }
}

/// Runs the kernel and records its gradient. Keeps the tensors.
fn record<B: LinearKernel, C: CheckpointStrategy, const N: usize>(
    operands: Tensors<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes: [_; N] = array(operands.tensors().map(|tensor| tensor.node()));
    let forward = |operands: Tensors<Autodiff<B, C>>| {
        B::fused_linear_forward(operands.map(|tensor| tensor.into_primitive()))
    };
    match traced(Linear, super::KERNEL.id)
        .prepare::<C>(nodes)
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(mut prep) => {
            let ids = operands.as_ref().map(|tensor| prep.checkpoint(tensor));
            prep.finish(ids, forward(operands))
        }
        OpsKind::UnTracked(prep) => prep.finish(forward(operands)),
    }
}
