//! Activation functions.

use super::prelude::*;

operations! {
    ActivationOps;

    fn leaky_relu(tensor: Float<B>, negative_slope: Scalar) -> Float<B> = like(&tensor);
    fn relu(tensor: Float<B>) -> Float<B> = like(&tensor);
    fn relu_backward(output: Float<B>, grad: Float<B>) -> Float<B> = both(&output, &grad);
    fn gelu(tensor: Float<B>) -> Float<B> = like(&tensor);
    fn prelu(tensor: Float<B>, alpha: Float<B>) -> Float<B> = both(&tensor, &alpha);
    fn gelu_backward(x: Float<B>, grad: Float<B>) -> Float<B> = both(&x, &grad);
    fn sigmoid(tensor: Float<B>) -> Float<B> = like(&tensor);
    fn sigmoid_backward(output: Float<B>, grad: Float<B>) -> Float<B> = both(&output, &grad);
    fn hard_sigmoid(tensor: Float<B>, alpha: Scalar, beta: Scalar) -> Float<B> = like(&tensor);
    fn log_sigmoid(tensor: Float<B>) -> Float<B> = like(&tensor);
    fn softmax(
        tensor: Float<B>,
        dim: usize,
    ) -> Float<B> = sum([like(&tensor), like(&tensor), widened(&tensor)]);
    fn log_softmax(
        tensor: Float<B>,
        dim: usize,
    ) -> Float<B> = sum([like(&tensor), like(&tensor), widened(&tensor)]);
    fn softmin(
        tensor: Float<B>,
        dim: usize,
    ) -> Float<B> = sum([like(&tensor), like(&tensor), widened(&tensor)]);
    fn log_sigmoid_backward(x: Float<B>, grad: Float<B>) -> Float<B> = both(&x, &grad);
}
