use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_moe", part = block)]
#[derive(Module, Debug)]
struct Block {
    gate: Linear,
    gate_up_proj: Param<Tensor<3>>,
    down_proj: Param<Tensor<3>>,
    top_k: usize,
}

fn main() {}
