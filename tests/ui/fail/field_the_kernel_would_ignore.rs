use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

// A norm with a bias is LayerNorm.
#[fused_kernel("npu_fused_rmsnorm")]
#[derive(Module, Debug)]
struct Norm {
    weight: Param<Tensor<1>>,
    bias: Param<Tensor<1>>,
    eps: f64,
}

fn main() {}
