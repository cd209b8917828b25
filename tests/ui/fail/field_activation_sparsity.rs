use burn::module::Module;
use burn::nn::Linear;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_swiglu", activation = gelu_tanh)]
#[derive(Module, Debug)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
    activation_sparsity: f64,
}

fn main() {}
