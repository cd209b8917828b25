use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rmsnorm")]
fn norm(x: Tensor<2>, weight: Tensor<1>, eps: f64, bias: Tensor<1>) -> Tensor<2> {
    x * weight.unsqueeze() + bias.unsqueeze() + eps
}

fn main() {}
