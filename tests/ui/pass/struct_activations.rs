use crate::common::{assert_near, assert_same, assert_site, device};
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

/// A gated MLP with identity projections of one element, and what it makes of 1.5.
macro_rules! unit {
    ($name:ident, $activation:ident, $expected:expr) => {
        #[fused_kernel("npu_fused_swiglu", activation = $activation)]
        #[derive(Module, Debug)]
        struct $name {
            w1: Linear,
            w2: Linear,
            w3: Linear,
        }

        impl $name {
            fn check() {
                let linear = || LinearConfig::new(1, 1).with_bias(false).init(&device());
                let mut mlp = Self {
                    w1: linear(),
                    w2: linear(),
                    w3: linear(),
                };
                for layer in [&mut mlp.w1, &mut mlp.w2, &mut mlp.w3] {
                    layer.weight = layer.weight.clone().map(|weight| weight.ones_like());
                }
                let x = Tensor::<2>::from_floats([[1.5]], &device());
                let y = mlp.forward(x.clone());
                assert_near(y.clone(), &[$expected]);
                assert_same(y, mlp.forward_reference(x));
                let site = concat!("struct_activations::", stringify!($name), "::forward");
                assert_site(
                    site,
                    concat!("glu(activation=", stringify!($activation), ")"),
                );
            }
        }
    };
}

// activation(1.5) · 1.5, by hand.
unit!(Silu, silu, 1.839_543);
unit!(Gelu, gelu, 2.099_684);
unit!(GeluTanh, gelu_tanh, 2.099_357);
unit!(QuickGelu, quick_gelu, 2.087_493);
unit!(Relu, relu, 2.25);
unit!(Relu2, relu2, 3.375);
unit!(Sigmoid, sigmoid, 1.226_362);
unit!(Identity, identity, 2.25);

pub fn main() {
    Silu::check();
    Gelu::check();
    GeluTanh::check();
    QuickGelu::check();
    Relu::check();
    Relu2::check();
    Sigmoid::check();
    Identity::check();
}
