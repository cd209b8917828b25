use burn::module::Module;
use burn::nn::Linear;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_moe", experts = list, gate_up = w13, down = w2)]
#[derive(Module, Debug)]
struct Experts {
    gate_up_proj: Linear,
    down_proj: Linear,
}

fn main() {}
