use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_swiglu")]
fn swiglu(a: Tensor<2>, b: Tensor<2>) -> Tensor<2> {
    burn::tensor::activation::silu(a) * b
}

fn main() {}
