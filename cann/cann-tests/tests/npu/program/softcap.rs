//! Tests soft capping on an NPU. CANN has no operator for it, so its sites take the reference and say so.

use super::alone;
use burn::tensor::{Device, Tensor, TensorData};
use burn_kernels::dispatch::Reason;
use burn_kernels::ops::softcap::fused;
use burn_kernels::report::report;
use burn_kernels::{fused_kernel, npu};

#[fused_kernel("npu_fused_softcap")]
fn capped(logits: Tensor<2>, cap: f64) -> Tensor<2> {
    (logits * (1.0 / cap)).tanh() * cap
}

/// Returns the results and the gradients of a site.
fn run(device: &Device) -> Vec<f32> {
    let numbers: Vec<f32> = (0..24).map(|i| (i * 7 % 24) as f32 * 8.0 - 90.0).collect();
    let x = Tensor::<2>::from_data(TensorData::new(numbers, [4, 6]), device).require_grad();
    let y = capped(x.clone(), 30.0);
    let dx = x.grad(&y.clone().sum().backward()).expect("a gradient");
    let both = [y.without_autodiff(), dx].map(|tensor| tensor.into_data().try_into_vec().unwrap());
    both.concat()
}

#[test]
fn soft_caps_take_the_reference() {
    alone(&[], || {
        let npu = npu::devices().unwrap().remove(0);
        let refused = fused(Tensor::<1>::ones([4], &npu), 30.0).unwrap_err();
        assert_eq!(refused, Reason::NoImplementation);
        let found = run(&npu.autodiff());
        let expected = run(&Device::flex().autodiff());
        for (found, expected) in found.iter().zip(&expected) {
            // The plain composition computes the slope as 1 − tanh².
            assert!((found - expected).abs() <= 2e-6 * expected.abs().max(1.0));
        }
        let rows = report().rows.into_iter();
        let paths = rows.filter_map(|row| row.call.map(|call| call.path()));
        let mut paths: Vec<String> = paths.collect();
        paths.sort();
        assert!(paths[0].starts_with("fused cpu-simd"), "{paths:?}");
        assert_eq!(paths[1], "reference: no implementation for this device");
        assert_eq!(burn_cann::backend::fallbacks(), []);
    });
}
