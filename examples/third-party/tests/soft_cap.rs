//! Verifies the kernel against its reference in f64: results and gradients.

use acme_kernels::soft_cap::{ID, KERNEL, Operands};
use burn::tensor::{Device, Distribution, Tensor};
use burn_kernels::policy::{self, Policy};
use burn_kernels::report::report;
use burn_kernels::{fused_kernel, kernel};

fn check<const D: usize>(shape: [usize; D], spread: f64) {
    let device = Device::flex().autodiff();
    let x = Tensor::<D>::random(shape, Distribution::Normal(0.0, spread), &device);
    for x in [x.clone(), x.swap_dims(D - 1, D - 2)] {
        let operands = Operands { x, cap: 30.0 };
        let worst = kernel::verify(&KERNEL.implementations[0], &operands);
        assert!(worst.is_ok(), "{shape:?}: {}", worst.unwrap_err());
    }
}

#[test]
fn the_kernel_is_its_reference() {
    // Values far below, near and above the cap; odd shapes, one element, no element, strided tensors. Beyond ten caps
    // the reference's gradient, 1 − tanh², keeps no digits even in f64.
    for spread in [0.1, 30.0, 60.0] {
        check([17, 33], spread);
        check([2, 3, 8], spread);
        check([1, 1], spread);
        check([0, 5], spread);
    }
}

#[fused_kernel(acme_kernels::soft_cap)]
fn cap_logits(x: Tensor<2>, cap: f64) -> Tensor<2> {
    (x / cap).tanh() * cap
}

/// The capped numbers and their gradients.
fn capped(device: &Device) -> [Vec<f32>; 2] {
    let x = Tensor::<2>::from_floats([[-80.0, 0.5], [7.0, 40.0]], device).require_grad();
    let y = cap_logits(x.clone(), 30.0);
    let gradient = x.grad(&y.clone().sum().backward()).unwrap();
    [y, gradient].map(|tensor| tensor.into_data().iter().collect())
}

#[test]
fn a_site_runs_the_kernel_and_where_it_is_off_its_own_body() {
    let device = Device::flex().autodiff();
    let fused = capped(&device);
    let runs = |path: &str| {
        let report = report().to_string();
        let mut lines = report.lines();
        lines.any(|line| line.contains("cap_logits") && line.contains(path))
    };
    assert!(runs("fused acme-cpu"), "{}", report());
    assert!(!runs("reference"), "{}", report());

    let _off = policy::scope(Policy::auto().disable(ID).unwrap());
    let plain = capped(&device);
    assert!(runs("reference"), "{}", report());
    for (fused, plain) in fused.iter().flatten().zip(plain.iter().flatten()) {
        assert!(
            (fused - plain).abs() <= 1e-5 * plain.abs().max(1.0),
            "{fused} and {plain}"
        );
    }
}
