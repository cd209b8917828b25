use burn::module::Module;
use burn::nn::Linear;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_linear")]
#[derive(Module, Debug)]
struct Projection {
    inner: Linear,
}

fn main() {}
