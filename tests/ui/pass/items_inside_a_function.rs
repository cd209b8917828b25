use burn::tensor::{Device, Tensor};

fn main() {
    #[burn_kernels::fused_kernel("npu_fused_swiglu", gate = a, up = b)]
    fn glu(a: Tensor<1>, b: Tensor<1>) -> Tensor<1> {
        burn::tensor::activation::silu(a) * b
    }

    let one = Tensor::ones([3], &Device::flex());
    let y = glu(one.clone(), one);
    assert!((y.into_data().to_vec::<f32>().unwrap()[0] - 0.731_058_6).abs() < 1e-6);
    assert!(burn_kernels::report::report().fused_calls() == 1);
}
