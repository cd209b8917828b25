//! Tests norms with a weight and a bias.

use crate::train::{WIDTH, initial, one_seed_one_model};
use burn::module::{Initializer, Module, Param};
use burn::tensor::{Device, Tensor};
use burn_kernels::fused_kernel;

fn vector(device: &Device) -> Param<Tensor<1>> {
    Initializer::Uniform {
        min: -0.5,
        max: 0.5,
    }
    .init([WIDTH], device)
}

/// Declares layers with these fields.
macro_rules! norms {
    ($($(#[$attribute:meta])* $name:ident { $first:ident $second:ident })*) => {
        $(
            $(#[$attribute])*
            #[derive(Module, Debug)]
            struct $name {
                $first: Param<Tensor<1>>,
                $second: Param<Tensor<1>>,
                eps: f64,
            }

            impl $name {
                fn init(device: &Device) -> Self {
                    Self {
                        $first: vector(device),
                        $second: vector(device),
                        eps: 1e-5,
                    }
                }
            }
        )*
    };
}

norms! {
    #[fused_kernel("npu_fused_layernorm")]
    OfFields { weight bias }
    #[fused_kernel("npu_fused_layernorm")]
    OfFieldsBiasFirst { bias weight }
    WeightFirst { bias weight }
    BiasFirst { weight bias }
    Helped { weight bias }
}

fn normal(x: Tensor<2>, eps: f64) -> Tensor<2> {
    let (variance, mean) = x.clone().var_mean_bias(1);
    (x - mean) / (variance + eps).sqrt()
}

#[fused_kernel("npu_fused_layernorm")]
impl WeightFirst {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let scaled = normal(x, self.eps) * self.weight.val().unsqueeze();
        scaled + self.bias.val().unsqueeze()
    }
}

#[fused_kernel("npu_fused_layernorm")]
impl BiasFirst {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let bias = self.bias.val().unsqueeze();
        normal(x, self.eps) * self.weight.val().unsqueeze() + bias
    }
}

#[fused_kernel("npu_fused_layernorm", weight = weight, bias = bias)]
impl Helped {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.shift(normal(x, self.eps))
    }

    fn shift(&self, x: Tensor<2>) -> Tensor<2> {
        let bias = self.bias.val().unsqueeze();
        x * self.weight.val().unsqueeze() + bias
    }
}

#[test]
fn parameters_are_initialised_in_the_order_of_fields_or_of_the_body() {
    one_seed_one_model("OfFields", OfFields::init, OfFields::forward);
    let (init, forward) = (OfFieldsBiasFirst::init, OfFieldsBiasFirst::forward);
    one_seed_one_model("OfFieldsBiasFirst", init, forward);
    one_seed_one_model("WeightFirst", WeightFirst::init, WeightFirst::forward);
    one_seed_one_model("BiasFirst", BiasFirst::init, BiasFirst::forward);
    one_seed_one_model("Helped", Helped::init, Helped::forward);
    // Both list the weight before the bias, and one body uses the bias first.
    assert_ne!(
        initial(OfFields::init, OfFields::forward),
        initial(BiasFirst::init, BiasFirst::forward),
        "the order makes a difference"
    );
}
