use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rmsnorm")]
#[derive(Module, Debug)]
struct Norm {
    weight: Param<Tensor<1>>,
    gate_proj: Linear,
    n_groups: usize,
    eps: f64,
}

fn main() {}
