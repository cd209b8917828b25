use burn::module::Module;
use burn::nn::Linear;
use burn_kernels::fused_kernel;

#[derive(Module, Debug)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

#[fused_kernel("npu_fused_moe")]
#[derive(Module, Debug)]
struct Experts {
    experts: Vec<Mlp>,
}

fn main() {}
