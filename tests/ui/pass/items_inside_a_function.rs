use burn::tensor::{Device, Tensor};

pub fn main() {
    #[burn_kernels::fused_kernel("npu_fused_swiglu", gate = a, up = b)]
    fn glu(a: Tensor<1>, b: Tensor<1>) -> Tensor<1> {
        burn::tensor::activation::silu(a) * b
    }

    let one = Tensor::ones([3], &Device::flex());
    let y = glu(one.clone(), one);
    assert!((y.into_data().try_to_vec::<f32>().unwrap()[0] - 0.731_058_6).abs() < 1e-6);
    let report = burn_kernels::report::report();
    let site = report
        .rows
        .iter()
        .find(|row| row.site.ends_with("items_inside_a_function::glu"));
    assert_eq!(site.map(|row| row.calls), Some(1));
}
