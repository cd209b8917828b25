use burn::module::Module;
use burn::nn::Linear;
use burn_kernels::fused_kernel;

#[derive(Module, Debug)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

// `Linear` keeps [in, out], whatever a checkpoint does.
#[fused_kernel("npu_fused_moe", experts = list, projections = separate, layout = linear)]
#[derive(Module, Debug)]
struct Experts {
    experts: Vec<Mlp>,
}

fn main() {}
