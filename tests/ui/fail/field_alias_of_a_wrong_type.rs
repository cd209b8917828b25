use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

type Weight = Param<Tensor<2>>;

#[fused_kernel("npu_fused_rmsnorm")]
#[derive(Module, Debug)]
struct Norm {
    weight: Weight,
    eps: f64,
}

fn main() {}
