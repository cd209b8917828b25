use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

// A parameter without `Param`, and layers that may be absent or several.
#[fused_kernel("npu_fused_swiglu")]
#[derive(Module, Debug)]
struct Mlp {
    gate_proj: Option<Linear>,
    up_proj: Vec<Linear>,
    down_proj: Tensor<2>,
}

fn main() {}
