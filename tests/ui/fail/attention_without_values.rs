use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_attention", mask = additive)]
fn attend(q: Tensor<4>, k: Tensor<4>) -> Tensor<4> {
    q.matmul(k.swap_dims(2, 3))
}

fn main() {}
