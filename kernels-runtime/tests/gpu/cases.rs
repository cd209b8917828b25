//! The number of cases that each kernel for GPUs has to pass.

use kernels_runtime::registry::FloatType;
use kernels_runtime::verify::{Outcome, VerifyReport};

/// The operations with a kernel for GPUs.
pub const KERNELS: [&str; 12] = [
    "npu_fused_rmsnorm",
    "npu_fused_add_rmsnorm",
    "npu_fused_layernorm",
    "npu_fused_swiglu",
    "npu_fused_rope",
    "npu_fused_qk_norm_rope",
    "npu_fused_softcap",
    "npu_fused_attention",
    "npu_fused_cross_entropy",
    "npu_fused_linear_cross_entropy",
    "npu_fused_adam_w",
    "npu_fused_moe",
];

/// Returns the number of cases of each operation in each type: those of `tests/main/verify.rs`.
pub fn cases() -> [(&'static str, usize); KERNELS.len()] {
    let norms = 23 * 8 + 9 * 3;
    let rotations = 15 * 6 + 7 * 3 + 4 * 7;
    // One expert can't be divided into groups, which two of the nine routers do.
    let (routers, experts) = (9 * 6 - 2, 24 + 2 * 10);
    [
        ("npu_fused_rmsnorm", norms),
        ("npu_fused_add_rmsnorm", norms),
        ("npu_fused_layernorm", 2 * (8 + 3)),
        // Three gated units have a top-k, one of them with the large shapes.
        ("npu_fused_swiglu", 16 * 8 + 11 * 3),
        ("npu_fused_rope", rotations),
        ("npu_fused_qk_norm_rope", 7 * 6 + 7 + 2 * 3),
        ("npu_fused_softcap", 2 * 8 + 3),
        // The two keys with a bias are verified with its gradient, which kernels don't have.
        ("npu_fused_attention", (15 - 2) * 8),
        ("npu_fused_cross_entropy", 6 * 8 + 2 * 3 - 2),
        ("npu_fused_linear_cross_entropy", 4 * (6 * 8 - 2)),
        ("npu_fused_adam_w", 2 * 8 + 3),
        ("npu_fused_moe", routers + experts),
    ]
}

/// Returns the number of cases that passed.
pub fn passed(report: &VerifyReport, kernel: &str, dtype: FloatType) -> usize {
    let rows = report.rows.iter();
    rows.filter(|row| row.kernel == kernel && row.dtype == dtype)
        .filter(|row| matches!(row.outcome, Outcome::Passed { .. }))
        .count()
}
