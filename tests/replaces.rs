//! Tests a crate that explicitly replaces a kernel of another one. It is a program of its own, because the linker makes the
//! registry.

use burn_kernels::declare_kernel;
use burn_kernels::registry::section::{self, Record};
use burn_kernels::registry::{self, KernelSpec};

declare_kernel! {
    /// A replacement for the kernel of kernels-runtime.
    pub static ROPE = KernelSpec {
        replaces: Some("kernels-runtime"),
        id: "npu_fused_rope",
        op: "rope",
        version: 2,
        summary: "in place of the kernel of kernels-runtime",
        implementations: &[],
    };
}

#[test]
fn the_kernel_that_replaces_is_the_kernel() {
    burn_kernels::init().unwrap();
    let kernel = registry::kernel("npu_fused_rope").unwrap();
    assert!(std::ptr::eq(kernel, ROPE));
    assert_eq!((kernel.krate, kernel.version), ("burn-kernels", 2));
    let replaced: Vec<_> = registry::replaced().collect();
    assert_eq!(replaced.len(), 1);
    assert_eq!(replaced[0].0.krate, "kernels-runtime");
    assert!(std::ptr::eq(replaced[0].1, kernel));
}

/// The record in this program's own file also names the replacement.
#[test]
fn the_built_file_says_what_is_replaced() {
    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let starts = bytes.windows(section::MAGIC.len()).enumerate();
    let records = starts.filter(|(_, window)| *window == section::MAGIC);
    let replaced = records
        .filter_map(|(at, _)| {
            let length = bytes.get(at + 8..at + 12)?.try_into().ok()?;
            let end = at + 12 + u32::from_le_bytes(length) as usize;
            section::decode(bytes.get(at..end)?).ok()
        })
        .flatten()
        .filter(|record| matches!(record, Record::Kernel(_)))
        .filter(|record| record.json()["replaces"] == "kernels-runtime");
    assert_eq!(replaced.count(), 1);
}
