use burn::module::Module;
use burn::nn::Linear;
use burn_kernels::fused_kernel;

// gpt-oss: clamped, with another activation, and one added to up.
#[fused_kernel("npu_fused_swiglu", projections = interleaved)]
#[derive(Module, Debug)]
struct Experts {
    gate_up_proj: Linear,
    down_proj: Linear,
    limit: f64,
    alpha: f64,
}

fn main() {}
