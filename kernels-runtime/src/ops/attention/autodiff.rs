use super::{Backward, Operands};
use crate::ops::operands::{array, checked};
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, NodeId, Ops, OpsKind, Step, register, traced,
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

/// The operands of a call as tensors of a backend.
pub type Tensors<B> = Operands<FloatTensor<B>>;

/// Attention as an operation of a Burn backend.
#[backend_extension(
    Flex: cfg(feature = "cpu"),
    Cube: cfg(feature = "gpu"),
    Remote: cfg(feature = "remote"),
    Autodiff,
)]
pub trait AttentionBackend: Backend {
    /// Returns the result.
    ///
    /// # Panics
    /// Panics if the tensors have different dtypes, or a dtype that kernels don't take.
    fn attention(#[extension_type] operands: Tensors<Self>) -> FloatTensor<Self>;
}

/// The gradients of [`Operands`]. The gradients of tensors that are missing or not wanted are `None`.
#[derive(Clone, Debug)]
pub struct Gradients<T> {
    /// The gradient of the queries.
    pub q: T,
    /// The gradient of the keys.
    pub k: T,
    /// The gradient of the values.
    pub v: T,
    /// The gradient of the bias, if it is wanted.
    pub bias: Option<T>,
    /// The gradient of the sinks, if there are any.
    pub sinks: Option<T>,
}

#[cfg(feature = "npu")]
impl<T> Gradients<T> {
    pub(crate) fn map<U>(self, mut each: impl FnMut(T) -> U) -> Gradients<U> {
        Gradients {
            q: each(self.q),
            k: each(self.k),
            v: each(self.v),
            bias: self.bias.map(&mut each),
            sinks: self.sinks.map(each),
        }
    }
}

/// The attention kernels of a backend, forward and backward.
pub trait AttentionKernel: Backend {
    /// Returns the result and `lse`, the logarithm of each query's sum of exponentials, `[batch, heads, queries]` in
    /// f32 (f64 for f64 tensors). `lse` of a query that sees no key is `-∞`. With packed documents, its elements may lie
    /// in another order, which the backward pass of the same backend expects.
    ///
    /// # Panics
    /// Panics if the tensors have different dtypes, or a dtype that kernels don't take.
    fn attention_forward(operands: Tensors<Self>) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// Returns the result of a call without a gradient, for which no `lse` is kept.
    ///
    /// # Panics
    /// Panics as [`attention_forward`](Self::attention_forward) does.
    fn attention_inference(operands: Tensors<Self>) -> FloatTensor<Self> {
        Self::attention_forward(operands).0
    }

    /// Returns the gradients. Kernels without a gradient of the bias are not chosen for a tracked bias.
    fn attention_backward(backward: Backward<FloatTensor<Self>>) -> Gradients<FloatTensor<Self>>;
}

#[derive(Debug)]
struct Attention;

#[derive(Clone, Debug)]
struct State<B: Backend> {
    operands: Operands<NodeId>,
    y: FloatTensor<B>,
    lse: FloatTensor<B>,
}

impl<B: AttentionKernel, const N: usize> Step<B, N> for Attention {
    type State = State<B>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Grads,
        checkpointer: &mut Checkpointer,
    ) {
        let State { operands, y, lse } = ops.state;
        let mut parents = ops.parents.into_iter();
        let dy = grads.consume::<B>(&ops.node);
        let has_bias = operands.bias().is_some();
        let operands = operands.map(|id| checkpointer.retrieve_node_output(id));
        let mut next = || parents.next().flatten();
        let [q_node, k_node, v_node] = [(); 3].map(|()| next());
        let bias_node = if has_bias { next() } else { None };
        let backward = operands.backward([dy, y, lse], bias_node.is_some());
        let gradients = B::attention_backward(checked(backward));
        let sinks_node = next();
        register!(B, grads, q_node, gradients.q);
        register!(B, grads, k_node, gradients.k);
        register!(B, grads, v_node, gradients.v);
        register!(B, grads, bias_node, gradients.bias);
        register!(B, grads, sinks_node, gradients.sinks);
    }
}

impl<B: AttentionKernel, C: CheckpointStrategy> AttentionBackend for Autodiff<B, C> {
    fn attention(operands: Tensors<Self>) -> FloatTensor<Self> {
        match operands.tensors().count() {
            3 => record_of::<B, C, 3>(operands),
            4 => record_of::<B, C, 4>(operands),
            _ => record_of::<B, C, 5>(operands),
        }
    }
}

/// Runs the kernel and records its gradient. Keeps the operands, the result and `lse`.
fn record_of<B: AttentionKernel, C: CheckpointStrategy, const N: usize>(
    operands: Tensors<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes: [_; N] = array(operands.tensors().map(|tensor| tensor.node()));
    match traced(Attention, super::KERNEL.id)
        .prepare::<C>(nodes)
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(mut prep) => {
            let ids = operands.as_ref().map(|tensor| prep.checkpoint(tensor));
            let operands = operands.map(|tensor| tensor.into_primitive());
            let (y, lse) = B::attention_forward(operands);
            let state = State {
                operands: ids,
                y: y.clone(),
                lse,
            };
            prep.finish(state, y)
        }
        OpsKind::UnTracked(prep) => {
            let operands = operands.map(|tensor| tensor.into_primitive());
            prep.finish(B::attention_inference(operands))
        }
    }
}
