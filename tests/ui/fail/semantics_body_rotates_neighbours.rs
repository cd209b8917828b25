use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rope")]
fn rotate(q: Tensor<4>, k: Tensor<4>, cos: Tensor<4>, sin: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
    let turn = |x: Tensor<4>| x.clone() * cos.clone() + rotate_every_two(x) * sin.clone();
    (turn(q), turn(k))
}

fn rotate_every_two(x: Tensor<4>) -> Tensor<4> {
    x
}

fn main() {}
