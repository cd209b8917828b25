use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_moe")]
#[derive(Module, Debug)]
struct Experts {
    gate_up_proj: Param<Tensor<3>>,
    gate_up_proj_bias: Param<Tensor<2>>,
    down_proj: Param<Tensor<3>>,
    down_proj_bias: Param<Tensor<2>>,
}

fn main() {}
