use burn::module::Module;
use burn::nn::Linear;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_moe", part = block)]
#[derive(Module, Debug)]
struct Block {
    gate: Linear,
    experts: Linear,
    top_k: usize,
}

fn main() {}
