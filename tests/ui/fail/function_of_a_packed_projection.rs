use burn::tensor::{Tensor, activation::silu};
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_swiglu")]
fn gated(gate_up: Tensor<2>) -> Tensor<2> {
    let half = gate_up.dims()[1] / 2;
    silu(gate_up.clone().narrow(1, 0, half)) * gate_up.narrow(1, half, half)
}

fn main() {}
