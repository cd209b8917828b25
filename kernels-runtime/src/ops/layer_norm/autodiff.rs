use super::{Backward, Operands, Wanted};
use crate::ops::operands::{array, checked};
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, NodeId, Ops, OpsKind, Step, recompute,
    register, traced,
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

/// The operands of a call as tensors of a backend.
pub type Tensors<B> = Operands<FloatTensor<B>>;

/// LayerNorm as an operation of a Burn backend.
#[backend_extension(
    Flex: cfg(feature = "cpu"),
    Cube: cfg(feature = "gpu"),
    Remote: cfg(feature = "remote"),
    Autodiff,
)]
pub trait LayerNormBackend: Backend {
    /// Returns the result, with the shape and dtype of `x`.
    ///
    /// # Panics
    /// Panics if the tensors have different dtypes, or a dtype that kernels don't take.
    fn layer_norm(#[extension_type] operands: Tensors<Self>) -> FloatTensor<Self>;
}

/// The results of a kernel.
#[derive(Clone, Debug)]
pub struct Normalised<T> {
    /// The result, with the shape and dtype of `x`.
    pub y: T,
    /// The mean of each row, in f32 (f64 for f64 tensors).
    pub mean: T,
    /// The reciprocal of the standard deviation of each row, in the dtype of the mean.
    pub rstd: T,
}

/// The gradients of [`Operands`]. The gradients of tensors that are missing or not wanted are `None`.
#[derive(Clone, Debug)]
pub struct Gradients<T> {
    /// The gradient of `x`.
    pub x: T,
    /// The gradient of the weight.
    pub weight: Option<T>,
    /// The gradient of the bias.
    pub bias: Option<T>,
}

/// The LayerNorm kernels of a backend, forward and backward.
pub trait LayerNormKernel: Backend {
    /// Returns the result and the statistics of the rows.
    ///
    /// # Panics
    /// Panics if the tensors have different dtypes, or a dtype that kernels don't take.
    fn layer_norm_forward(operands: Tensors<Self>) -> Normalised<FloatTensor<Self>>;

    /// Returns the gradients of `x` and, if they are wanted, of the weight and the bias.
    fn layer_norm_backward(backward: Backward<FloatTensor<Self>>) -> Gradients<FloatTensor<Self>>;
}

#[derive(Debug)]
struct LayerNorm;

#[derive(Clone, Debug)]
struct State<B: Backend> {
    operands: Operands<NodeId>,
    mean: FloatTensor<B>,
    rstd: FloatTensor<B>,
}

impl<B: LayerNormKernel, const N: usize> Step<B, N> for LayerNorm {
    type State = State<B>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Grads,
        checkpointer: &mut Checkpointer,
    ) {
        let State {
            operands,
            mean,
            rstd,
        } = ops.state;
        let mut parents = ops.parents.into_iter();
        let [x, weight, bias] = [(); 3].map(|()| parents.next().flatten());
        let dy = grads.consume::<B>(&ops.node);
        let operands = operands.map(|id| checkpointer.retrieve_node_output(id));
        let wanted = Wanted {
            weight: weight.is_some(),
            bias: bias.is_some(),
        };
        let backward = checked(operands.backward(dy, mean, rstd, wanted));
        let gradients = B::layer_norm_backward(backward);
        register!(B, grads, x, gradients.x);
        register!(B, grads, weight, gradients.weight);
        register!(B, grads, bias, gradients.bias);
    }
}

impl<B: LayerNormKernel, C: CheckpointStrategy> LayerNormBackend for Autodiff<B, C> {
    fn layer_norm(operands: Tensors<Self>) -> FloatTensor<Self> {
        match operands.bias() {
            Some(_) => record::<B, C, 3>(operands),
            None => record::<B, C, 2>(operands),
        }
    }
}

/// Runs the kernel and records its gradient. Keeps the tensors and the statistics.
fn record<B: LayerNormKernel, C: CheckpointStrategy, const N: usize>(
    operands: Tensors<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes: [_; N] = array(operands.tensors().map(|tensor| tensor.node()));
    let forward = |operands: Tensors<Autodiff<B, C>>| {
        B::layer_norm_forward(operands.map(|tensor| tensor.into_primitive()))
    };
    let ids = operands.as_ref().map(|tensor| tensor.node().id());
    let again = recompute::<B, _>(move |read| B::layer_norm_forward(ids.clone().map(read)).y);
    let prepared = traced(LayerNorm, super::KERNEL.id)
        .prepare::<C>(nodes)
        .memory_bound();
    let prepared = prepared.retro_forward(again).parents(operands.tensors());
    match prepared.stateful() {
        OpsKind::Tracked(mut prep) => {
            let ids = operands.as_ref().map(|tensor| prep.checkpoint(tensor));
            let Normalised { y, mean, rstd } = forward(operands);
            let state = State {
                operands: ids,
                mean,
                rstd,
            };
            prep.finish(state, y)
        }
        OpsKind::UnTracked(prep) => prep.finish(forward(operands).y),
    }
}
