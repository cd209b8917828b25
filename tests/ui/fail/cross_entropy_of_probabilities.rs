use burn::tensor::{Int, Tensor};
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_cross_entropy")]
fn of_distributions(logits: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
    -(logits * targets).sum()
}

#[fused_kernel("npu_fused_cross_entropy", reduction = average)]
fn pair(logits: Tensor<2>, targets: Tensor<1, Int>) -> (Tensor<1>, Tensor<1>) {
    (logits.clone().sum(), targets.float())
}

#[fused_kernel("npu_fused_cross_entropy")]
struct Weighted {
    class_weights: Vec<f32>,
    ignore_index: f64,
}

#[fused_kernel("npu_fused_linear_cross_entropy", layout = tied)]
fn without_a_weight(hidden: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    hidden.sum() + targets.float().sum()
}

fn main() {}
