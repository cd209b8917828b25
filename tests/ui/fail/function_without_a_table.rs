use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rope")]
fn rotate(q: Tensor<4>, k: Tensor<4>, cos: Tensor<3>) -> (Tensor<4>, Tensor<4>) {
    let _ = cos;
    (q, k)
}

fn main() {}
