use burn::module::Module;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rope", sections = interleaved)]
#[derive(Module, Debug)]
struct Rotary {
    cos: Tensor<2>,
    sin: Tensor<4>,
    mrope_section: [usize; 2],
}

fn main() {}
