use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

// Three mistakes, three errors.
#[fused_kernel("npu_fused_rmsnorm", offset = two, colour = red)]
#[derive(Module, Debug)]
struct Norm {
    weight: Param<Tensor<1>>,
    eps: bool,
}

fn main() {}
