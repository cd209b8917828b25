use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_attention", mask = prefix, window = sliding)]
fn attend(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, prefix: usize, window_size: usize) -> Tensor<4> {
    let _ = (prefix, window_size);
    q.matmul(k.swap_dims(2, 3)).matmul(v)
}

#[fused_kernel("npu_fused_attention", mask = prefix_lm)]
fn of_pictures(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
    q.matmul(k.swap_dims(2, 3)).matmul(v)
}

fn main() {}
