//! What exists: every kernel and every annotated site that is linked into the program.
//!
//! Both are collected by the linker ([`linkme`]): no code runs before `main`, no folder is scanned
//! and nothing can fail quietly. The same facts stand as JSON in a link section of the built file
//! ([`section`]), where `kernels inspect` reads them without running it.

mod capability;
mod kernel;
pub mod section;
mod site;

pub use capability::CapabilityRange;
pub(crate) use kernel::declare_kernel;
pub use kernel::{FloatType, Implementation, KernelSpec, Launch};
pub use site::{Form, Site, SiteSpec};

use linkme::distributed_slice;

/// Filled by the linker with every annotated site.
#[doc(hidden)]
#[distributed_slice]
pub static SITES: [&'static Site];

/// Filled by the linker with every kernel.
#[doc(hidden)]
#[distributed_slice]
pub static KERNELS: [&'static KernelSpec];

/// Every annotated site of the program, sorted by name.
pub fn sites() -> impl Iterator<Item = &'static Site> {
    let mut sites: Vec<_> = SITES.iter().copied().collect();
    sites.sort_by_key(|site| (site.name(), site.spec().line));
    sites.into_iter()
}

/// Every kernel of the program, sorted by id.
pub fn kernels() -> impl Iterator<Item = &'static KernelSpec> {
    let mut kernels: Vec<_> = KERNELS.iter().copied().collect();
    kernels.sort_by_key(|kernel| kernel.id);
    kernels.into_iter()
}

/// The kernel registered under `id`.
pub fn kernel(id: &str) -> Option<&'static KernelSpec> {
    KERNELS.iter().copied().find(|kernel| kernel.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_ids_are_unique_and_known() {
        let ids: Vec<_> = kernels().map(|kernel| kernel.id).collect();
        assert_eq!(
            ids,
            ["npu_fused_rmsnorm", "npu_fused_rope", "npu_fused_swiglu"]
        );
        assert!(kernel("npu_fused_rope").is_some());
        assert!(kernel("npu_fused_rop").is_none());
    }
}
