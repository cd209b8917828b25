//! Every kernel × semantics × dtype × shape class on the CPU, forward and gradients.

#![cfg(feature = "cpu")]

use burn::tensor::Device;
use kernels_runtime::verify::verify_all;

#[test]
fn every_cpu_kernel_is_within_its_budget() {
    let device = Device::flex();
    let report = verify_all(&device, &device);
    assert!(report.passed(), "{report}");
    // 11 shapes for each of four norms and SwiGLU, 9 (even widths) for RoPE; four dtypes each.
    assert_eq!(report.counts(), ((5 * 11 + 9) * 4, (5 * 11 + 9) * 4));
}
