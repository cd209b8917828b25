use burn::tensor::{Tensor, activation::silu};
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_swiglu")]
fn gated(gate: Tensor<2>, up: Tensor<2>) {
    let _ = silu(gate) * up;
}

fn main() {}
