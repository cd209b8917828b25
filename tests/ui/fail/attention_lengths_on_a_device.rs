use burn::tensor::{Int, Tensor};
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_attention", lengths = packed)]
fn attend(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, lengths: Tensor<1, Int>) -> Tensor<4> {
    let _ = lengths;
    q.matmul(k.swap_dims(2, 3)).matmul(v)
}

#[fused_kernel("npu_fused_attention", lengths = varlen)]
fn attend_packed(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, lengths: &[usize]) -> Tensor<4> {
    let _ = lengths;
    q.matmul(k.swap_dims(2, 3)).matmul(v)
}

fn main() {}
