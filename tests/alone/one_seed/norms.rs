//! Tests norms with a weight and a bias: LayerNorm, and RMSNorm.

use super::train::{WIDTH, initial, one_seed_one_model};
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
    #[fused_kernel("npu_fused_rmsnorm", shift = bias)]
    RmsBiasFirst { bias weight }
    WeightFirst { bias weight }
    RmsWeightFirst { bias weight }
    BiasFirst { weight bias }
    Helped { weight bias }
    RmsHelped { weight bias }
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

#[fused_kernel("npu_fused_rmsnorm", shift = bias)]
impl RmsWeightFirst {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let mean_square = x.clone().square().mean_dim(1);
        let normal = x / mean_square.add_scalar(self.eps).sqrt();
        normal * self.weight.val().unsqueeze() + self.bias.val().unsqueeze()
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

#[fused_kernel("npu_fused_rmsnorm", shift = bias, weight = weight, bias = bias)]
impl RmsHelped {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let mean_square = x.clone().square().mean_dim(1);
        self.shift(x / mean_square.add_scalar(self.eps).sqrt())
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
    let (init, forward) = (RmsBiasFirst::init, RmsBiasFirst::forward);
    one_seed_one_model("RmsBiasFirst", init, forward);
    let (init, forward) = (RmsWeightFirst::init, RmsWeightFirst::forward);
    one_seed_one_model("RmsWeightFirst", init, forward);
    one_seed_one_model("Helped", Helped::init, Helped::forward);
    one_seed_one_model("RmsHelped", RmsHelped::init, RmsHelped::forward);
    // Both list the weight before the bias, and one body uses the bias first.
    assert_ne!(
        initial(OfFields::init, OfFields::forward),
        initial(BiasFirst::init, BiasFirst::forward),
        "the order makes a difference"
    );
}
