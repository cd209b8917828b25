use burn::module::Module;
use burn::nn::Linear;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_swiglu", when = self., layer = "MLP")]
#[derive(Module, Debug)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

fn main() {}
