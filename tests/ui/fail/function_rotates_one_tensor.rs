use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rope")]
fn rotate(x: Tensor<4>, cos: Tensor<3>, sin: Tensor<3>) -> Tensor<4> {
    let half = x.dims()[3] / 2;
    let turned = Tensor::cat(vec![-x.clone().narrow(3, half, half), x.clone().narrow(3, 0, half)], 3);
    x * cos.unsqueeze_dim(1) + turned * sin.unsqueeze_dim(1)
}

fn main() {}
