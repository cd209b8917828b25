use burn::module::Module;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rope")]
#[derive(Module, Debug)]
struct Rotary {
    cos: Tensor<2>,
    sin: Tensor<2>,
    mrope_section: [usize; 3],
}

fn main() {}
