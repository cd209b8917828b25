#![deny(warnings, missing_docs)]
#![allow(dead_code)] // As a module of a test, nothing uses it.
//! A crate that tolerates no warning.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

/// A norm.
#[fused_kernel("npu_fused_rmsnorm")]
#[derive(Module, Debug)]
pub struct Norm {
    weight: Param<Tensor<1>>,
    eps: f64,
}

/// An MLP.
#[fused_kernel("npu_fused_swiglu")]
#[derive(Module, Debug)]
pub struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

/// Rotates queries and keys.
#[fused_kernel("npu_fused_rope")]
pub fn rotate(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: &Tensor<3>,
    sin: &Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let turn = |x: Tensor<4>| x * cos.clone().unsqueeze_dim::<4>(1) + sin.clone().unsqueeze_dim(1);
    (turn(q), turn(k))
}

pub fn main() {}
