//! Tests linear layers with a bias.

use super::train::{WIDTH, initial, one_seed_one_model};
use burn::module::{Initializer, Module, Param};
use burn::tensor::{Device, Tensor};
use burn_kernels::fused_kernel;

fn parameter<const D: usize>(device: &Device) -> Param<Tensor<D>> {
    Initializer::Uniform {
        min: -0.5,
        max: 0.5,
    }
    .init([WIDTH; D], device)
}

/// Declares layers with a weight and a bias.
macro_rules! layers {
    ($($(#[$attribute:meta])* $name:ident { $first:ident: $F:literal, $second:ident: $S:literal })*) => {
        $(
            $(#[$attribute])*
            #[derive(Module, Debug)]
            struct $name {
                $first: Param<Tensor<$F>>,
                $second: Param<Tensor<$S>>,
            }

            impl $name {
                fn init(device: &Device) -> Self {
                    Self {
                        $first: parameter(device),
                        $second: parameter(device),
                    }
                }
            }
        )*
    };
}

layers! {
    #[fused_kernel("npu_fused_linear", shift = bias)]
    LinearOfFields { weight: 2, bias: 1 }
    #[fused_kernel("npu_fused_linear", shift = bias)]
    LinearOfFieldsBiasFirst { bias: 1, weight: 2 }
    LinearBiasFirst { weight: 2, bias: 1 }
}

#[fused_kernel("npu_fused_linear", shift = bias)]
impl LinearBiasFirst {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let bias = self.bias.val().unsqueeze();
        x.matmul(self.weight.val()) + bias
    }
}

#[test]
fn parameters_are_initialised_in_the_order_of_fields_or_of_the_body() {
    one_seed_one_model(
        "LinearOfFields",
        LinearOfFields::init,
        LinearOfFields::forward,
    );
    let (init, forward) = (
        LinearOfFieldsBiasFirst::init,
        LinearOfFieldsBiasFirst::forward,
    );
    one_seed_one_model("LinearOfFieldsBiasFirst", init, forward);
    one_seed_one_model(
        "LinearBiasFirst",
        LinearBiasFirst::init,
        LinearBiasFirst::forward,
    );
    assert_ne!(
        initial(LinearOfFields::init, LinearOfFields::forward),
        initial(LinearBiasFirst::init, LinearBiasFirst::forward),
        "the order makes a difference"
    );
}
