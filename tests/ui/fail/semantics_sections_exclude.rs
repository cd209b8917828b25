use burn::module::Module;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

// Two mistakes: neither the style nor the table goes with three positions.
#[fused_kernel("npu_fused_rope", style = interleaved, table = pairs, sections = chunked)]
#[derive(Module, Debug)]
struct Rotary {
    cos: Tensor<4>,
    sin: Tensor<4>,
    mrope_section: [usize; 3],
}

fn main() {}
