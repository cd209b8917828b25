use burn::tensor::{Tensor, activation::gelu};
use burn_kernels::fused_kernel;

// With SwiGLU it would run, and be wrong by 15 %.
#[fused_kernel("npu_fused_swiglu")]
fn gated(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    gelu(gate) * up
}

fn main() {}
