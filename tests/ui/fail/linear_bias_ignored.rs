use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_linear")]
#[derive(Module, Debug)]
struct Projection {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

fn main() {}
