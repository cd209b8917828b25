use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[derive(Module, Debug)]
struct Norm {
    weight: Param<Tensor<1>>,
    group_size: f64,
    eps: usize,
}

// The attribute cannot see the struct: the traits of the runtime say what is wrong.
impl Norm {
    #[fused_kernel("npu_fused_rmsnorm", groups = many)]
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        x * self.weight.val().unsqueeze() * self.group_size + self.eps as f64
    }
}

fn main() {}
