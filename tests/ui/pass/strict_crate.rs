#![deny(warnings, missing_docs, unused, clippy::all, clippy::pedantic)]
#![forbid(unsafe_code)]
#![allow(dead_code)] // As a module of a test, nothing uses it.
//! A crate that tolerates no warning, in the code or in what the attribute makes of it.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::activation::silu;
use burn::tensor::{Int, Tensor};
use burn_kernels::fused_kernel;

/// A norm.
#[fused_kernel("npu_fused_rmsnorm")]
#[derive(Module, Debug)]
pub struct Norm {
    weight: Param<Tensor<1>>,
    eps: f64,
}

/// An MLP.
#[fused_kernel("npu_fused_swiglu", clamp = limit, when = self.limit > 0.0, layer = "MLP")]
#[derive(Module, Debug)]
pub struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
    limit: f64,
}

/// A norm with a body.
#[derive(Module, Debug)]
pub struct Written {
    weight: Param<Tensor<1>>,
    eps: f64,
}

#[fused_kernel("npu_fused_rmsnorm")]
impl Written {
    /// Normalises.
    #[must_use]
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let mean = x.clone().square().mean_dim(D - 1);
        x / (mean + self.eps).sqrt() * self.weight.val().unsqueeze()
    }
}

/// A layer.
pub trait Layer {
    /// Computes.
    fn gated(&self, gate: Tensor<2>, up: Tensor<2>) -> Tensor<2>;
}

#[fused_kernel("npu_fused_swiglu", method = gated)]
impl Layer for Mlp {
    fn gated(&self, mut gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
        gate = silu(gate);
        gate * up
    }
}

/// Rotates queries and keys.
#[fused_kernel("npu_fused_rope")]
#[must_use]
pub fn rotate(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: &Tensor<3>,
    sin: &Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let turn = |x: Tensor<4>| x * cos.clone().unsqueeze_dim::<4>(1) + sin.clone().unsqueeze_dim(1);
    (turn(q), turn(k))
}

/// Experts.
#[fused_kernel("npu_fused_moe", bias = all)]
#[derive(Module, Debug)]
pub struct Experts {
    gate_up_proj: Param<Tensor<3>>,
    gate_up_proj_bias: Param<Tensor<2>>,
    down_proj: Param<Tensor<3>>,
    down_proj_bias: Param<Tensor<2>>,
}

/// Experts in a list.
#[fused_kernel("npu_fused_moe", experts = list, projections = separate)]
#[derive(Module, Debug)]
pub struct Listed {
    experts: Vec<Mlp>,
}

/// A block.
#[fused_kernel("npu_fused_moe", part = block, shared = gated, correction = bias, scoring = sigmoid)]
#[derive(Module, Debug)]
pub struct Block {
    gate: Linear,
    e_score_correction_bias: Param<Tensor<1>>,
    experts: Listed,
    shared_expert: Mlp,
    shared_expert_gate: Linear,
    top_k: usize,
}

/// Experts as a function.
#[fused_kernel("npu_fused_moe")]
#[must_use]
pub fn experts(
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    gate_up: Tensor<3>,
    down: &Tensor<3>,
) -> Tensor<2> {
    let weights = (gate_up.sum() + down.clone().sum()).unsqueeze::<2>();
    x * routing.sum_dim(1) * indices.float().sum_dim(1) * weights
}

/// Caps.
#[fused_kernel(crate::acme::soft_cap, cap = limit)]
#[must_use]
pub fn cap(x: Tensor<2>, limit: f64) -> Tensor<2> {
    (x / limit).tanh() * limit
}

pub fn main() {}
