use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_moe", projections = separate)]
#[derive(Module, Debug)]
struct Experts {
    gate_up_proj: Param<Tensor<3>>,
    down_proj: Param<Tensor<3>>,
}

#[fused_kernel("npu_fused_moe")]
#[derive(Module, Debug)]
struct Separate {
    gate_proj: Param<Tensor<3>>,
    up_proj: Param<Tensor<3>>,
    down_proj: Param<Tensor<3>>,
}

fn main() {}
