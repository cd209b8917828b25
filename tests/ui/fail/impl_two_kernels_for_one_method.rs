use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[derive(Module, Debug)]
struct Norm {
    weight: Param<Tensor<1>>,
    eps: f64,
}

#[fused_kernel("npu_fused_rmsnorm")]
#[fused_kernel("npu_fused_rmsnorm", offset = 1)]
impl Norm {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        x * self.weight.val().unsqueeze() + self.eps
    }
}

fn main() {}
