use super::{Backward, Kept, Operands, Wanted};
use crate::ops::operands::{Described, array, checked};
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, NodeId, Ops, OpsKind, Step, register, traced,
};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};
use burn::tensor::DType;
use std::fmt::Debug;

/// The operands of a call as tensors of a backend.
pub type Tensors<B> = Operands<FloatTensor<B>, IntTensor<B>>;

/// The linear cross-entropy as an operation of a Burn backend.
#[backend_extension(
    Flex: cfg(feature = "cpu"),
    Cube: cfg(feature = "gpu"),
    Remote: cfg(feature = "remote"),
    Autodiff,
)]
pub trait LinearCrossEntropyBackend: Backend {
    /// Returns the loss.
    ///
    /// # Panics
    /// Panics if the float tensors have different dtypes, or a dtype that kernels don't take. On the CPU, also panics if
    /// a target is neither a class nor the ignored index.
    fn linear_cross_entropy(#[extension_type] operands: Tensors<Self>) -> FloatTensor<Self>;
}

/// The gradients. Those that are not wanted are `None`.
#[derive(Clone, Debug)]
pub struct Gradients<T> {
    /// The gradient of the hidden states.
    pub hidden: Option<T>,
    /// The gradient of the weight.
    pub weight: Option<T>,
    /// The gradient of the bias.
    pub bias: Option<T>,
}

impl<T> Gradients<T> {
    pub(crate) fn map<U>(self, mut each: impl FnMut(T) -> U) -> Gradients<U> {
        Gradients {
            hidden: self.hidden.map(&mut each),
            weight: self.weight.map(&mut each),
            bias: self.bias.map(each),
        }
    }

    pub(crate) fn as_ref(&self) -> Gradients<&T> {
        Gradients {
            hidden: self.hidden.as_ref(),
            weight: self.weight.as_ref(),
            bias: self.bias.as_ref(),
        }
    }

    /// Returns all gradients in order.
    pub(crate) fn all(self) -> impl Iterator<Item = Option<T>> {
        [self.hidden, self.weight, self.bias].into_iter()
    }
}

/// The loss, the gradients that are kept, without the weight's, and the factors of this.
pub type WithFactors<B> = (
    FloatTensor<B>,
    Gradients<FloatTensor<B>>,
    <B as LinearCrossEntropyKernel>::WeightFactors,
);

/// The kernels for the linear cross-entropy of a backend, forward and backward.
pub trait LinearCrossEntropyKernel: Backend {
    /// The factors of the weight's gradient, which may be smaller than the gradient.
    type WeightFactors: Clone + Debug + Send + 'static;

    /// Returns the loss and, for the gradient 1 of the loss, those of the wanted gradients that are kept: all of a mean or a sum,
    /// and of losses that are not reduced that of the hidden states if it is the only one. They are in the type that they are
    /// computed in. They are computed while the logits are there.
    ///
    /// # Panics
    /// Panics as [`LinearCrossEntropyBackend::linear_cross_entropy`] does.
    fn linear_cross_entropy_forward(
        operands: Tensors<Self>,
        wanted: Wanted,
    ) -> (FloatTensor<Self>, Gradients<FloatTensor<Self>>);

    /// Returns the loss and the gradients as [`linear_cross_entropy_forward`](Self::linear_cross_entropy_forward) does, but
    /// the factors of the weight's gradient in place of this. Returns `None` if the backend keeps the gradient of such
    /// operands, and then computes nothing.
    ///
    /// # Panics
    /// Panics as [`LinearCrossEntropyBackend::linear_cross_entropy`] does.
    fn linear_cross_entropy_factors(_: &Tensors<Self>, _: Wanted) -> Option<WithFactors<Self>> {
        None
    }

    /// Returns the gradient of the weight, multiplied by `dy`, the gradient of the loss, and rounded to its dtype.
    ///
    /// # Panics
    /// Panics if `dy` does not have the shape and dtype of the loss.
    fn linear_cross_entropy_weight(
        factors: Self::WeightFactors,
        dy: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// Returns kept gradients, multiplied by the gradient of the loss, or row by row by those of losses, and rounded to their
    /// dtype.
    fn linear_cross_entropy_scale(kept: Kept<FloatTensor<Self>>) -> Gradients<FloatTensor<Self>>;

    /// Returns the wanted gradients. Computes the logits again.
    ///
    /// # Panics
    /// Panics as [`LinearCrossEntropyBackend::linear_cross_entropy`] does.
    fn linear_cross_entropy_backward(
        backward: Backward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> Gradients<FloatTensor<Self>>;
}

#[derive(Debug)]
struct LinearCrossEntropy;

/// The state that the backward pass needs.
#[derive(Clone, Debug)]
enum State<B: LinearCrossEntropyKernel> {
    /// The gradients themselves, or the factors of the weight's, and the dtype of the results.
    Gradients(Gradients<FloatTensor<B>>, Option<B::WeightFactors>, DType),
    /// The operands.
    Operands(Operands<NodeId, IntTensor<B>>),
}

impl<B: LinearCrossEntropyKernel, const N: usize> Step<B, N> for LinearCrossEntropy {
    type State = State<B>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Grads,
        checkpointer: &mut Checkpointer,
    ) {
        let mut parents = ops.parents.into_iter();
        let [hidden, weight, bias] = [(); 3].map(|()| parents.next().flatten());
        let dy = grads.consume::<B>(&ops.node);
        let gradients = match ops.state {
            State::Gradients(gradients, factors, dtype) => {
                let weight = factors.map(|of| B::linear_cross_entropy_weight(of, dy.clone()));
                let kept = checked(Kept::new(gradients, dy, dtype));
                let scaled = B::linear_cross_entropy_scale(kept);
                Gradients {
                    weight: weight.or(scaled.weight),
                    ..scaled
                }
            }
            State::Operands(operands) => {
                let operands =
                    operands.map(|id| checkpointer.retrieve_node_output(id), |ints| ints);
                let wanted = Wanted {
                    hidden: hidden.is_some(),
                    weight: weight.is_some(),
                    bias: bias.is_some(),
                };
                B::linear_cross_entropy_backward(checked(operands.backward(dy, wanted)))
            }
        };
        register!(B, grads, hidden, gradients.hidden);
        register!(B, grads, weight, gradients.weight);
        register!(B, grads, bias, gradients.bias);
    }
}

impl<B: LinearCrossEntropyKernel, C: CheckpointStrategy> LinearCrossEntropyBackend
    for Autodiff<B, C>
{
    fn linear_cross_entropy(operands: Tensors<Self>) -> FloatTensor<Self> {
        match operands.bias() {
            Some(_) => record::<B, C, 3>(operands),
            None => record::<B, C, 2>(operands),
        }
    }
}

/// Runs the kernel and records its gradient. Keeps the gradients, or the operands if they are computed again.
fn record<B: LinearCrossEntropyKernel, C: CheckpointStrategy, const N: usize>(
    operands: Tensors<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes: [_; N] = array(operands.floats().map(|tensor| tensor.node()));
    let wanted = Wanted {
        hidden: operands.hidden().is_tracked(),
        weight: operands.weight().is_tracked(),
        bias: operands.bias().is_some_and(|bias| bias.is_tracked()),
    };
    let primitives = |operands: Tensors<Autodiff<B, C>>| {
        operands.map(|tensor| tensor.into_primitive(), |ints| ints)
    };
    match traced(LinearCrossEntropy, super::KERNEL.id)
        .prepare::<C>(nodes)
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(mut prep) => match checked(operands.kept(wanted)).any() {
            true => {
                let dtype = Described::dtype(operands.hidden());
                let (loss, gradients, factors) = with_gradients::<B>(primitives(operands), wanted);
                prep.finish(State::Gradients(gradients, factors, dtype), loss)
            }
            false => {
                let ids = operands.clone();
                let ids = ids.map(|tensor| prep.checkpoint(&tensor), |ints| ints);
                let (loss, _) = B::linear_cross_entropy_forward(primitives(operands), wanted);
                prep.finish(State::Operands(ids), loss)
            }
        },
        OpsKind::UnTracked(prep) => {
            let operands = primitives(operands);
            prep.finish(B::linear_cross_entropy_forward(operands, Wanted::default()).0)
        }
    }
}

/// Returns the loss, and the gradients or factors that the backward pass needs.
fn with_gradients<B: LinearCrossEntropyKernel>(
    operands: Tensors<B>,
    wanted: Wanted,
) -> (
    FloatTensor<B>,
    Gradients<FloatTensor<B>>,
    Option<B::WeightFactors>,
) {
    if let Some((loss, gradients, factors)) = B::linear_cross_entropy_factors(&operands, wanted) {
        return (loss, gradients, Some(factors));
    }
    let (loss, gradients) = B::linear_cross_entropy_forward(operands, wanted);
    (loss, gradients, None)
}
