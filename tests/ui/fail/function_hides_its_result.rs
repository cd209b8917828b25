use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_swiglu")]
fn swiglu(gate: Tensor<2>, up: Tensor<2>) -> impl Into<Tensor<2>> {
    burn::tensor::activation::silu(gate) * up
}

#[fused_kernel("npu_fused_swiglu")]
fn checked_swiglu(gate: Tensor<2>, up: Tensor<2>) -> Result<Tensor<2>, String> {
    if gate.dims() != up.dims() {
        return Err("the shapes differ".to_owned());
    }
    Ok(burn::tensor::activation::silu(gate) * up)
}

fn main() {}
