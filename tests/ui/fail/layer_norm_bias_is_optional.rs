use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_layernorm")]
#[derive(Module, Debug)]
struct Norm {
    weight: Param<Tensor<1>>,
    bias: Option<Param<Tensor<1>>>,
    eps: f64,
}

fn main() {}
