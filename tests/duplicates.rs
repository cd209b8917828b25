//! Tests a program in which two crates register one kernel, and neither replaces the other. It is a program of its own,
//! because the linker makes the registry: nothing else works in this one.

use burn::tensor::{DType, Device, Tensor};
use burn_kernels::dispatch::{Mode, plan_for};
use burn_kernels::registry::{self, KernelSpec};
use burn_kernels::{declare_kernel, fused_kernel};

declare_kernel! {
    /// A second kernel with the id of kernels-runtime's.
    pub static ROPE = KernelSpec {
        id: "npu_fused_rope",
        op: "rope",
        version: 1,
        summary: "the same id as the kernel of kernels-runtime",
        implementations: &[],
    };
}

/// Calls another kernel than the one with two registrations.
#[fused_kernel("npu_fused_swiglu")]
fn gated(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    burn::tensor::activation::silu(gate) * up
}

const BOTH: [&str; 3] = [
    "kernel `npu_fused_rope` is registered by burn-kernels ",
    "and by kernels-runtime ",
    "replaces: Some(",
];

#[test]
fn everything_that_needs_the_registry_is_an_error_that_names_both_crates() {
    let device = Device::flex();
    let call = || {
        let x = Tensor::<2>::ones([1, 2], &device);
        gated(x.clone(), x)
    };
    let panic = std::panic::catch_unwind(call).expect_err("no decision is made");
    let panic = panic.downcast_ref::<String>().expect("a message").clone();
    for message in [
        registry::check().unwrap_err().to_string(),
        burn_kernels::init().unwrap_err().to_string(),
        plan_for(&device, DType::F32, Mode::Training)
            .unwrap_err()
            .to_string(),
        panic,
    ] {
        for words in BOTH {
            assert!(message.contains(words), "{message}");
        }
    }
    // Both are listed, and neither is used.
    let twice = registry::kernels().filter(|kernel| kernel.id == "npu_fused_rope");
    assert_eq!(twice.count(), 2);
    assert!(registry::kernel("npu_fused_rope").is_none());
}
