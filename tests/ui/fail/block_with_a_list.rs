use burn::module::Module;
use burn::nn::Linear;
use burn_kernels::fused_kernel;

#[derive(Module, Debug)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

#[fused_kernel("npu_fused_moe", part = block)]
#[derive(Module, Debug)]
struct Block {
    gate: Linear,
    experts: Vec<Mlp>,
    top_k: usize,
}

#[fused_kernel("npu_fused_moe", part = block, experts = list)]
#[derive(Module, Debug)]
struct Listed {
    gate: Linear,
    experts: Vec<Mlp>,
    top_k: usize,
}

fn main() {}
