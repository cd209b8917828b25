//! The kernels for GPUs in bf16, on CubeCL's runtime for CPUs: no adapter of wgpu has the type.
//!
//! The runtime has a thread for each unit of a cube, which spins until the others come. So cubes have two units here, and
//! kernels whose cubes can't have so few are left out: those of attention and of grouped products. So is the linear
//! cross-entropy, since the runtime has too little shared memory for Burn's product of half types.

use crate::cases::{KERNELS, cases, passed};
use burn::tensor::Device;
use kernels_runtime::registry::FloatType;
use kernels_runtime::verify::verify_some;

const LEFT_OUT: [&str; 3] = [
    "npu_fused_attention",
    "npu_fused_moe",
    "npu_fused_linear_cross_entropy",
];

#[test]
fn gpu_kernels_are_within_their_budgets_in_bf16() {
    let device = Device::cpu();
    assert!(device.supports_dtype(FloatType::Bf16.dtype()));
    let report = verify_some(&device, &Device::flex(), |kernel, dtype| {
        dtype == FloatType::Bf16 && KERNELS.contains(&kernel) && !LEFT_OUT.contains(&kernel)
    });
    assert!(report.passed(), "{report}");
    for (kernel, cases) in cases() {
        let run = !LEFT_OUT.contains(&kernel);
        let expected = if run { cases } else { 0 };
        assert_eq!(
            passed(&report, kernel, FloatType::Bf16),
            expected,
            "{kernel}"
        );
    }
}
