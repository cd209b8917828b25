//! Verifies every kernel × semantics × dtype × shape class on the CPU, forward and gradients.

use burn::tensor::Device;
use kernels_runtime::dispatch::DeviceKind;
use kernels_runtime::verify::{VerifyReport, verify_all};

#[test]
fn every_cpu_kernel_is_within_its_budget() {
    let device = Device::flex();
    let report = verify_all(&device, &device);
    assert!(report.passed(), "{report}");
    // Eight shapes for each of 23 norms, of as many norms of sums and of 19 gated units, and three large shapes for 9,
    // 9 and 12 of them. Layer norms with and without a bias have all of these shapes. Rotations have the six even
    // shapes, partial ones seven. All have four dtypes.
    let norms = 23 * 8 + 9 * 3;
    let layer_norms = 2 * (8 + 3);
    // Both layouts of the weight, with a bias and without.
    let linear = 4 * 8;
    let units = 19 * 8 + 12 * 3;
    let rotations = 15 * 6 + 7 * 3 + 4 * 7;
    // 24 keys of experts, and ten shapes, routes and layouts for two of them. Nine routers have six shapes, those with
    // groups five.
    let experts = 24 + 2 * 10;
    let routers = 9 * 6 - 2;
    // Two steps of AdamW, one with the large shapes.
    let steps = 2 * 8 + 3;
    // Two caps, one with the large shapes.
    let caps = 2 * 8 + 3;
    // Six short convolutions and seven gated delta rules, one of each with the large shapes.
    let linear_attentions = 6 * 8 + 3 + 7 * 8 + 3;
    // Fourteen keys of attention.
    let attentions = 15 * 8;
    // Cross-entropies of three reductions, with a cap and without. Those without a reduction have the large shapes, and
    // a mean is one of some tokens.
    let losses = 6 * 8 + 2 * 3 - 2;
    // The same of hidden states, with both layouts of the weight, with a bias and without; none has the large shapes.
    let losses = losses + 4 * (6 * 8 - 2);
    // Divergences of three forms, plain and with everything.
    let losses = losses + 3 * 2 * 8;
    // Seven keys of norms and rotations with the six even shapes, and one partial one with seven; two with the large
    // shapes.
    let prepared = 7 * 6 + 7 + 2 * 3;
    // Three of these norms have a bias.
    let biased = 3 * 8;
    let dense =
        2 * norms + biased + layer_norms + linear + units + rotations + prepared + attentions;
    let cases = (dense + linear_attentions + losses + experts + routers + steps + caps) * 4;
    assert_eq!(report.counts(), (cases, cases));
    // Their operands are not all tensors. Live verification and tests of their own compare them.
    let without = [
        "npu_fused_quantized_embedding",
        "npu_fused_quantized_linear",
        "npu_fused_quantized_linear_cross_entropy",
        "npu_fused_quantized_linear_int8",
    ];
    assert_eq!(report.without_cases, without);
}

/// The report names kernels without cases.
#[test]
fn kernels_without_cases_are_named() {
    let report = VerifyReport {
        device: DeviceKind::Cpu,
        rows: Vec::new(),
        without_cases: vec!["acme_soft_cap"],
    };
    assert!(
        report
            .to_string()
            .ends_with("not verified here: acme_soft_cap\n")
    );
}
