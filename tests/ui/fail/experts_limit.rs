use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_moe", up_offset = 1, layout = matmul)]
#[derive(Module, Debug)]
struct Experts {
    gate_up_proj: Param<Tensor<3>>,
    down_proj: Param<Tensor<3>>,
    swiglu_limit: f64,
    alpha: f64,
}

fn main() {}
