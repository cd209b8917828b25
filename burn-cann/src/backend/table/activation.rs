//! Activation functions.

use super::prelude::*;

operations! {
    ActivationOps, "activation";



    composed:
        leaky_relu, relu, relu_backward, gelu, prelu, gelu_backward, sigmoid, sigmoid_backward,
        hard_sigmoid, log_sigmoid, softmax, log_softmax, softmin, log_sigmoid_backward,
    ;
}
