use burn::tensor::{Tensor, activation::silu};
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_swiglu")]
fn gated((gate, up): (Tensor<2>, Tensor<2>)) -> Tensor<2> {
    silu(gate) * up
}

fn main() {}
