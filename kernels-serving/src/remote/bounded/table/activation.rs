//! Activation functions.

use super::prelude::*;

operations! {
    ActivationOps;

    fn leaky_relu(tensor: Float<B>, negative_slope: Scalar) -> Float<B> = like(&tensor);
    fn relu, gelu, sigmoid, log_sigmoid(tensor: Float<B>) -> Float<B> = like(&tensor);
    fn relu_backward, sigmoid_backward(output: Float<B>, grad: Float<B>) -> Float<B> = both(&output, &grad);
    fn prelu(tensor: Float<B>, alpha: Float<B>) -> Float<B> = both(&tensor, &alpha);
    fn gelu_backward, log_sigmoid_backward(x: Float<B>, grad: Float<B>) -> Float<B> = both(&x, &grad);
    fn hard_sigmoid(tensor: Float<B>, alpha: Scalar, beta: Scalar) -> Float<B> = like(&tensor);
    fn softmax, log_softmax, softmin
        (tensor: Float<B>, dim: usize) -> Float<B> = sum([like(&tensor), like(&tensor), widened(&tensor)]);
}
