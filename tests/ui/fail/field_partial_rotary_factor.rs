use burn::module::Module;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rope")]
#[derive(Module, Debug)]
struct Rotary {
    cos: Tensor<2>,
    sin: Tensor<2>,
    partial_rotary_factor: f64,
}

fn main() {}
