use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

// One mistake, one error: the struct and its method can be used all the same.
#[fused_kernel("npu_fused_rmsnorm", offset = 2)]
#[derive(Module, Debug)]
struct Norm {
    weight: Param<Tensor<1>>,
    eps: f64,
}

fn twice(norm: &Norm, x: Tensor<2>) -> Tensor<2> {
    norm.forward(norm.forward_reference(x)) + norm.eps
}

fn main() {}
