//! Tests mistakes of new users that compile. The first use finds them in every build, without any setting for
//! verification. `cargo test --release` runs the same tests.
//!
//! This file has the right layers, and the macros that declare layers with other bodies.

use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::silu;
use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use burn_kernels::fused_kernel;

/// Declares a gated MLP with a body of its own.
macro_rules! mlp {
    ($name:ident, |$gate:ident, $up:ident| $hidden:expr) => {
        #[derive(Module, Debug)]
        struct $name {
            gate_proj: Linear,
            up_proj: Linear,
            down_proj: Linear,
        }

        #[fused_kernel("npu_fused_swiglu")]
        impl $name {
            fn forward(&self, x: Tensor<3>) -> Tensor<3> {
                let $gate = self.gate_proj.forward(x.clone());
                let $up = self.up_proj.forward(x);
                self.down_proj.forward($hidden)
            }
        }

        impl $name {
            fn new(device: &Device, dtype: FloatDType) -> Self {
                let linear = |inputs, outputs| {
                    let layer = LinearConfig::new(inputs, outputs).with_bias(false);
                    let mut layer = layer.init(device);
                    let weight = layer.weight.val().cast(dtype);
                    layer.weight = Param::from_tensor(weight.detach());
                    layer
                };
                Self {
                    gate_proj: linear(32, 80),
                    up_proj: linear(32, 80),
                    down_proj: linear(80, 32),
                }
            }
        }
    };
}

mlp!(Mlp, |gate, up| silu(gate) * up);

/// Declares an RMSNorm with a body of its own.
macro_rules! norm {
    ($name:ident($($setting:tt)*), |$x:ident, $weight:ident, $eps:ident| $y:expr) => {
        #[derive(Module, Debug)]
        struct $name {
            weight: Param<Tensor<1>>,
            variance_epsilon: f64,
        }

        #[fused_kernel("npu_fused_rmsnorm" $($setting)*)]
        impl $name {
            fn forward(&self, $x: Tensor<3>) -> Tensor<3> {
                let ($weight, $eps) = (self.weight.val().unsqueeze(), self.variance_epsilon);
                $y
            }
        }

        impl $name {
            fn new(device: &Device, dtype: FloatDType) -> Self {
                let weight = random([64], device) * 0.3 + 1.0;
                Self {
                    weight: Param::from_tensor(weight.cast(dtype).detach()),
                    variance_epsilon: 1e-6,
                }
            }
        }
    };
}

/// Returns `x̂` in f32.
fn normed(x: Tensor<3>, eps: f64) -> Tensor<3> {
    let x = x.cast(FloatDType::F32);
    let mean_square = x.clone().square().mean_dim(2);
    x / (mean_square + eps).sqrt()
}

/// Rounds before the weight, as Llama does.
fn llama(x: Tensor<3>, weight: Tensor<3>, eps: f64) -> Tensor<3> {
    let dtype = FloatDType::from(x.dtype());
    normed(x, eps).cast(dtype) * weight
}

/// Rounds after the weight, as Gemma does.
fn gemma(x: Tensor<3>, weight: Tensor<3>, eps: f64) -> Tensor<3> {
    let dtype = FloatDType::from(x.dtype());
    (normed(x, eps) * weight.cast(FloatDType::F32)).cast(dtype)
}

norm!(Norm(), |x, weight, eps| llama(x, weight, eps));
norm!(NormOfGemma(, rounding = gemma), |x, weight, eps| gemma(x, weight, eps));

/// Returns a tensor of normally distributed numbers.
fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

// Modules see the macros above them only.
mod generics;
mod mistakes;
mod sites;
mod threads;
