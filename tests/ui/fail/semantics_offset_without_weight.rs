use burn::module::Module;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rmsnorm", offset = 1, scale = none)]
#[derive(Module, Debug)]
struct Norm {
    eps: f64,
}

fn main() {}
