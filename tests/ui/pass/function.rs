use burn::tensor::Tensor;
use burn::tensor::{Device, activation::silu};
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_swiglu")]
pub fn swiglu<const D: usize>(gate: Tensor<D>, up: Tensor<D>) -> Tensor<D> {
    silu(gate) * up
}

#[fused_kernel("npu_fused_rmsnorm", weight = w)]
fn norm(hidden: Tensor<2>, w: Tensor<1>, eps: f64) -> Tensor<2> {
    let mean_square = hidden.clone().square().mean_dim(1);
    hidden / (mean_square + eps).sqrt() * w.unsqueeze()
}

pub fn main() {
    let device = Device::flex();
    let x = Tensor::<2>::from_floats([[1.0, -2.0], [0.5, 3.0]], &device);
    let y = swiglu(x.clone(), x.clone()) - swiglu_reference(x.clone(), x.clone());
    assert!(y.abs().max().into_scalar::<f32>() < 1e-6);
    let w = Tensor::ones([2], &device);
    let y = norm(x.clone(), w.clone(), 1e-6) - norm_reference(x, w, 1e-6);
    assert!(y.abs().max().into_scalar::<f32>() < 1e-6);
}
