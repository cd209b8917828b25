use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rmsnorm")]
#[derive(Module, Debug)]
struct Norm {
    #[cfg(unix)]
    weight: Param<Tensor<1>>,
    eps: f64,
}

fn main() {}
