//! Every kernel × semantics × dtype × shape class on the CPU, forward and gradients.

#![cfg(feature = "cpu")]

use burn::tensor::Device;
use kernels_runtime::verify::verify_all;

#[test]
fn every_cpu_kernel_is_within_its_budget() {
    let device = Device::flex();
    let report = verify_all(&device, &device);
    assert!(report.passed(), "{report}");
    // Eight shapes for each of 23 norms and 19 gated units, and three large ones for 9 and 12 of
    // them; rotations have the six that are even, partial ones seven; four dtypes each.
    let norms = 23 * 8 + 9 * 3;
    let units = 19 * 8 + 12 * 3;
    let rotations = 15 * 6 + 7 * 3 + 3 * 7;
    let cases = (norms + units + rotations) * 4;
    assert_eq!(report.counts(), (cases, cases));
    // What has no case is said; the experts are tested in `moe_experts.rs`.
    assert_eq!(report.without_cases, ["npu_fused_moe"]);
    assert!(
        report
            .to_string()
            .ends_with("not verified here: npu_fused_moe\n")
    );
}
