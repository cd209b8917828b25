//! Activation functions.

use super::prelude::*;

operations! {
    ActivationOps, "activation";

    fn relu(tensor: Float) -> Float = native(one(Unary::Relu));
    fn gelu(tensor: Float) -> Float = native(one(Unary::Gelu));
    fn gelu_backward(x: Float, grad: Float) -> Float = native(activation::gelu_backward);
    fn sigmoid(tensor: Float) -> Float = native(one(Unary::Sigmoid));
    fn hard_sigmoid(tensor: Float, alpha: Scalar, beta: Scalar) -> Float = native(activation::hard_sigmoid);

    composed:
        leaky_relu, relu_backward, prelu, sigmoid_backward, log_sigmoid, softmax, log_softmax, softmin,
        log_sigmoid_backward;
}
