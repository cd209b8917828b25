//! Activation functions.

use super::prelude::*;

operations! {
    ActivationOps, "activation";

    fn relu(tensor: Float) -> Float = native(one(Unary::Relu));
    fn gelu(tensor: Float) -> Float = native(one(Unary::Gelu));
    fn gelu_backward(x: Float, grad: Float) -> Float = native(activation::gelu_backward);
    fn sigmoid(tensor: Float) -> Float = native(one(Unary::Sigmoid));
    fn hard_sigmoid(tensor: Float, alpha: Scalar, beta: Scalar) -> Float = native(activation::hard_sigmoid);
    fn log_sigmoid(tensor: Float) -> Float = native(activation::log_sigmoid);
    fn log_sigmoid_backward(x: Float, grad: Float) -> Float = native(activation::log_sigmoid_backward);
    fn softmax(tensor: Float, dim: usize) -> Float = native(activation::softmax);
    fn log_softmax(tensor: Float, dim: usize) -> Float = native(activation::log_softmax);

    composed:
        leaky_relu, relu_backward, prelu, sigmoid_backward, softmin;
}
