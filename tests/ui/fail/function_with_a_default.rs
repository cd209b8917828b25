use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rmsnorm")]
fn norm(x: Tensor<2>, weight: Tensor<1>, eps: f64 = 1e-6) -> Tensor<2> {
    let mean = x.clone().square().mean_dim(1);
    x / (mean + eps).sqrt() * weight.unsqueeze()
}

fn main() {}
