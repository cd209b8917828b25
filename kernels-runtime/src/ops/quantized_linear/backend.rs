use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, Ops, OpsKind, Step, register, traced,
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};
use kernels_quant::OwnedWeight;

/// The product with a quantised weight as an operation of a Burn backend.
#[backend_extension(Flex: cfg(feature = "cpu"), Autodiff)]
pub trait QuantizedLinearBackend: Backend {
    /// Returns `x · weightᵀ`, `[.., outputs]`, in the dtype of `x`.
    ///
    /// # Panics
    /// Panics if the last axis of `x` is not the weight's inputs, or if no kernel computes in its dtype.
    fn quantized_linear(x: FloatTensor<Self>, weight: OwnedWeight) -> FloatTensor<Self>;

    /// Returns the gradient of `x`, `dy · weight`, `[.., inputs]`, in the dtype of `dy`.
    ///
    /// # Panics
    /// Panics if the last axis of `dy` is not the weight's outputs, or if no kernel computes in its dtype.
    fn quantized_linear_gradient(dy: FloatTensor<Self>, weight: OwnedWeight) -> FloatTensor<Self>;
}

#[derive(Debug)]
struct QuantizedLinear;

impl<B: QuantizedLinearBackend> Step<B, 1> for QuantizedLinear {
    /// A handle of the weight: the gradient needs nothing else.
    type State = OwnedWeight;

    fn backward(self, ops: Ops<OwnedWeight, 1>, grads: &mut Grads, _: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let [x] = ops.parents;
        if x.is_some() {
            let dx = B::quantized_linear_gradient(dy, ops.state);
            register!(B, grads, x, dx);
        }
    }
}

impl<B: QuantizedLinearBackend, C: CheckpointStrategy> QuantizedLinearBackend for Autodiff<B, C> {
    fn quantized_linear(x: FloatTensor<Self>, weight: OwnedWeight) -> FloatTensor<Self> {
        let step = traced(QuantizedLinear, super::ID);
        match step.prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let y = B::quantized_linear(x.into_primitive(), weight.clone());
                prep.finish(weight, y)
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(B::quantized_linear(x.into_primitive(), weight))
            }
        }
    }

    /// The gradient of a gradient: the product itself.
    fn quantized_linear_gradient(dy: FloatTensor<Self>, weight: OwnedWeight) -> FloatTensor<Self> {
        let step = traced(Gradient, super::ID);
        match step.prepare::<C>([dy.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let dx = B::quantized_linear_gradient(dy.into_primitive(), weight.clone());
                prep.finish(weight, dx)
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(B::quantized_linear_gradient(dy.into_primitive(), weight))
            }
        }
    }
}

#[derive(Debug)]
struct Gradient;

impl<B: QuantizedLinearBackend> Step<B, 1> for Gradient {
    type State = OwnedWeight;

    fn backward(self, ops: Ops<OwnedWeight, 1>, grads: &mut Grads, _: &mut Checkpointer) {
        let of_dx = grads.consume::<B>(&ops.node);
        let [dy] = ops.parents;
        if dy.is_some() {
            let of_dy = B::quantized_linear(of_dx, ops.state);
            register!(B, grads, dy, of_dy);
        }
    }
}
