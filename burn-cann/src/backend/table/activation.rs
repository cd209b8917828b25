//! Activation functions.

use super::prelude::*;

operations! {
    ActivationOps, "activation";

    fn gelu_backward(x: Float, grad: Float) -> Float = host;
    fn sigmoid(tensor: Float) -> Float = host;
    fn sigmoid_backward(output: Float, grad: Float) -> Float = host;
    fn hard_sigmoid(tensor: Float, alpha: Scalar, beta: Scalar) -> Float = host;

    composed:
        leaky_relu, relu, relu_backward, gelu, prelu, log_sigmoid, softmax, log_softmax, softmin,
        log_sigmoid_backward;
}
