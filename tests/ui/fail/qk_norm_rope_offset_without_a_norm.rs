use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_qk_norm_rope", norm = none, offset = 1)]
fn prepare(q: Tensor<4>, k: Tensor<4>, cos: Tensor<2>, sin: Tensor<2>) -> (Tensor<4>, Tensor<4>) {
    (q * cos.unsqueeze(), k * sin.unsqueeze())
}

fn main() {}
