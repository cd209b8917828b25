use burn::module::Module;
use burn::nn::Linear;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_swiglu", projections = chunked, topk = gaussian)]
#[derive(Module, Debug)]
struct Mlp {
    gate_up_proj: Linear,
    down_proj: Linear,
    activation_sparsity: f64,
}

fn main() {}
