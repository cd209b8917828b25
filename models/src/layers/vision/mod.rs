//! The layers of vision towers. [`qwen2_5`] and [`qwen3`] have those of a family, and [`attention`] those that both have.

pub mod attention;
pub(crate) mod patches;
pub mod qwen2_5;
pub mod qwen3;

use burn::module::{Initializer, Param};
use burn::tensor::{DType, Device, FloatDType, Tensor};
use burn_kernels::nn::Linear;

use crate::config::VisionConfig;

/// The number that every norm of a tower adds to the mean square or to the variance.
pub(crate) const EPS: f64 = 1e-6;

/// The configuration and the device that the layers of a tower are built from.
#[derive(Clone, Copy)]
pub(crate) struct Build<'a> {
    pub(crate) config: &'a VisionConfig,
    pub(crate) device: &'a Device,
}

impl Build<'_> {
    /// Creates a weight. Memory is allocated on first use.
    pub(crate) fn weight<const D: usize>(self, shape: [usize; D]) -> Param<Tensor<D>> {
        let std = self.config.initializer_range;
        Initializer::Normal { mean: 0.0, std }.init(shape, self.device)
    }

    /// Creates a bias.
    pub(crate) fn bias(self, width: usize) -> Param<Tensor<1>> {
        Initializer::Zeros.init([width], self.device)
    }

    /// Creates the weight of a norm.
    pub(crate) fn norm_weight(self, width: usize) -> Param<Tensor<1>> {
        Initializer::Ones.init([width], self.device)
    }

    /// Creates a projection with a bias.
    pub(crate) fn linear(self, input: usize, output: usize) -> Linear {
        Linear {
            weight: self.weight([input, output]),
            bias: Some(self.bias(output)),
        }
    }

    /// Returns the width of the patches of a block, one after the other.
    pub(crate) fn joined(self) -> usize {
        self.config.hidden_size * self.config.spatial_merge_size * self.config.spatial_merge_size
    }
}

/// Computes a function of half types in f32, and rounds its result once.
pub(crate) fn wide<const D: usize>(
    x: Tensor<D>,
    function: impl FnOnce(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    match x.dtype() {
        dtype @ (DType::F16 | DType::BF16) => function(x.cast(FloatDType::F32)).cast(dtype),
        _ => function(x),
    }
}

/// Returns `x · Φ(x)` with the distribution of the normal one. The gradient of Burn's function is that of an approximation.
pub(crate) fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    wide(x, |x| {
        let error = (x.clone() * std::f64::consts::FRAC_1_SQRT_2).erf();
        x * (error + 1.0) * 0.5
    })
}

/// Returns the approximation of [`gelu`] by a hyperbolic tangent.
pub(crate) fn gelu_tanh<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
    wide(x, |x| {
        let cube = x.clone() * x.clone() * x.clone();
        let inner = (x.clone() + cube * 0.044715) * (FRAC_2_SQRT_PI * FRAC_1_SQRT_2);
        x * (inner.tanh() + 1.0) * 0.5
    })
}

/// Joins the patches of each block: `[1, n · patches, width]` to `[n, patches · width]`.
pub(crate) fn join(x: Tensor<3>, patches: usize) -> Tensor<2> {
    let [_, all, width] = x.dims();
    x.reshape([all / patches, patches * width])
}
