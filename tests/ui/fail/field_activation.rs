use burn::nn::Linear;
use burn_kernels::fused_kernel;

#[derive(Debug, Clone, Copy)]
enum Act {
    Silu,
    Gelu,
}

#[fused_kernel("npu_fused_swiglu")]
#[derive(Debug)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
    act: Act,
}

fn main() {}
