use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, Ops, OpsKind, Step, register, traced,
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata as _, backend_extension};
use burn::tensor::DType;
use kernels_quant::OwnedWeight;
use std::sync::Arc;

/// What a loss takes beside hidden states and the weight.
#[derive(Clone, Debug)]
pub struct Labels {
    /// The class of each token, `None` for ignored tokens.
    pub classes: Arc<[Option<usize>]>,
    /// The limit of the logits, if there is one.
    pub softcap: Option<f64>,
}

/// The cross-entropy of a quantised output layer as an operation of a Burn backend.
#[backend_extension(Flex: cfg(feature = "cpu"), Autodiff)]
pub trait QuantizedLinearCrossEntropyBackend: Backend {
    /// Returns the loss of each token, `[tokens]`, in f32 (f64 for f64).
    ///
    /// # Panics
    /// Panics if sizes don't go together, if a label is not a class, or if no kernel computes in the dtype.
    fn quantized_linear_cross_entropy(
        hidden: FloatTensor<Self>,
        weight: OwnedWeight,
        labels: Labels,
    ) -> FloatTensor<Self>;
}

/// The kernels of a backend, forward and backward.
pub trait QuantizedLinearCrossEntropyKernel: Backend {
    /// Returns the losses and, if `wanted`, the gradient of the hidden states for the gradient 1 of each loss, in the
    /// type that it is computed in.
    ///
    /// # Panics
    /// Panics as [`QuantizedLinearCrossEntropyBackend::quantized_linear_cross_entropy`] does.
    fn quantized_linear_cross_entropy_forward(
        hidden: FloatTensor<Self>,
        weight: OwnedWeight,
        labels: Labels,
        wanted: bool,
    ) -> (FloatTensor<Self>, Option<FloatTensor<Self>>);

    /// Returns a kept gradient, each row times the gradient of its loss, rounded to the dtype of the hidden states.
    ///
    /// # Panics
    /// Panics if `dy` does not have one number for each row.
    fn quantized_linear_cross_entropy_scale(
        kept: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        dtype: DType,
    ) -> FloatTensor<Self>;
}

#[derive(Debug)]
struct Losses;

impl<B: QuantizedLinearCrossEntropyKernel> Step<B, 1> for Losses {
    /// The kept gradient, and the dtype of the hidden states.
    type State = (FloatTensor<B>, DType);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Grads, _: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let [hidden] = ops.parents;
        let (kept, dtype) = ops.state;
        if hidden.is_some() {
            let gradient = B::quantized_linear_cross_entropy_scale(kept, dy, dtype);
            register!(B, grads, hidden, gradient);
        }
    }
}

impl<B: QuantizedLinearCrossEntropyKernel, C: CheckpointStrategy> QuantizedLinearCrossEntropyBackend
    for Autodiff<B, C>
{
    fn quantized_linear_cross_entropy(
        hidden: FloatTensor<Self>,
        weight: OwnedWeight,
        labels: Labels,
    ) -> FloatTensor<Self> {
        let step = traced(Losses, super::ID);
        let forward = B::quantized_linear_cross_entropy_forward;
        match step
            .prepare::<C>([hidden.node()])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => {
                let dtype = hidden.dtype();
                let (losses, kept) = forward(hidden.into_primitive(), weight, labels, true);
                let kept = kept.expect("a gradient that is wanted is computed");
                prep.finish((kept, dtype), losses)
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(forward(hidden.into_primitive(), weight, labels, false).0)
            }
        }
    }
}
