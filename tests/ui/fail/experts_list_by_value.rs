#![allow(unused)]

use burn::nn::Linear;
use burn::tensor::{Int, Tensor};
use burn_kernels::fused_kernel;

struct Mlp {
    gate_up_proj: Linear,
    down_proj: Linear,
}

#[fused_kernel("npu_fused_moe", experts = list)]
fn experts(
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    experts: Vec<Mlp>,
) -> Tensor<2> {
    x
}

fn main() {}
