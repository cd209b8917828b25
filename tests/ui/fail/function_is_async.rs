use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_swiglu")]
async fn swiglu(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    burn::tensor::activation::silu(gate) * up
}

fn main() {}
