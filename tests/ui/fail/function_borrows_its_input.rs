use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rmsnorm")]
fn norm<'a>(x: &'a Tensor<2>, weight: &'a mut Tensor<1>, eps: f64) -> Tensor<2> {
    let mean = x.clone().square().mean_dim(1);
    x.clone() / (mean + eps).sqrt() * weight.clone().unsqueeze()
}

fn main() {}
