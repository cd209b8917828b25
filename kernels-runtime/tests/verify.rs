//! Every kernel × semantics × dtype × shape class on the CPU, forward and gradients.

#![cfg(feature = "cpu")]

use burn::tensor::Device;
use kernels_runtime::verify::verify_all;

#[test]
fn every_cpu_kernel_is_within_its_budget() {
    let device = Device::flex();
    let report = verify_all(&device, &device);
    assert!(report.passed(), "{report}");
    let (ran, passed) = report.counts();
    assert_eq!(ran, passed);
    assert_eq!(ran, report.rows.len(), "every case ran");
    println!("{ran}");
}
