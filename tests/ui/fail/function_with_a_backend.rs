use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_swiglu")]
fn gated<B>(gate: Tensor<B, 2>, up: Tensor<B, 2>) -> Tensor<B, 2> {
    gate * up
}

fn main() {}
