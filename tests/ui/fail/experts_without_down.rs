use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_moe")]
#[derive(Module, Debug)]
struct Experts {
    gate_up_proj: Param<Tensor<3>>,
}

fn main() {}
