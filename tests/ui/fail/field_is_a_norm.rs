use burn::module::Module;
use burn::nn::RmsNorm;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rmsnorm")]
#[derive(Module, Debug)]
struct Norm {
    inner: RmsNorm,
}

fn main() {}
