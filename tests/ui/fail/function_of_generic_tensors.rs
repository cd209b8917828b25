use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_swiglu")]
fn swiglu<T: Into<Tensor<2>>>(gate: T, up: impl Into<Tensor<2>>) -> Tensor<2> {
    let (gate, up): (Tensor<2>, Tensor<2>) = (gate.into(), up.into());
    burn::tensor::activation::silu(gate) * up
}

#[fused_kernel("npu_fused_rmsnorm")]
fn norm(x: Box<Tensor<2>>, weight: &Tensor<1>, eps: f64) -> Tensor<2> {
    let mean = x.clone().square().mean_dim(1);
    *x / (mean + eps).sqrt() * weight.clone().unsqueeze()
}

fn main() {}
