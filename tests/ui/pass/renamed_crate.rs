mod inner {
    pub use burn_kernels as kernels;
}

use self::inner::kernels::fused_kernel;
use burn::tensor::Tensor;

#[fused_kernel("npu_fused_swiglu", crate = self::inner::kernels)]
fn glu(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    burn::tensor::activation::silu(gate) * up
}

pub fn main() {
    let one = Tensor::ones([1, 3], &burn::tensor::Device::flex());
    let _ = glu(one.clone(), one);
}
