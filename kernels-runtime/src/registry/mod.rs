//! What exists: every kernel and every annotated site that is linked into the program.
//!
//! Both are collected by the linker ([`linkme`]): no code runs before `main`, no folder is scanned
//! and nothing can fail quietly. The same facts stand as JSON in a link section of the built file
//! ([`section`]), where `kernels inspect` reads them without running it.
//!
//! Kernels come from any crate, by [`declare_kernel!`](crate::declare_kernel). Several kernels may
//! compute one operation; each has its own id. Two kernels of one id are an error ([`check`])
//! unless one says that it replaces the other.

mod capability;
mod declare;
mod gradient;
mod kernel;
mod resolve;
pub mod section;
mod spec;

pub use crate::declare_kernel;
pub use crate::dispatch::{SITES, Site, sites};
pub use capability::CapabilityRange;
#[doc(hidden)]
pub use declare::assert_well_formed;
pub use gradient::Gradient;
pub use kernel::{FloatType, Implementation, KernelSpec, Launch, Limits};
pub use resolve::{RegistryError, RegistryProblem, check, kernel, kernels, replaced};
pub use spec::{Form, SiteSpec};

use linkme::distributed_slice;

/// Filled by the linker with what attributes know of every annotated site.
#[doc(hidden)]
#[distributed_slice]
pub static SPECS: [&'static SiteSpec];

/// Filled by the linker with every kernel.
#[doc(hidden)]
#[distributed_slice]
pub static KERNELS: [&'static KernelSpec];
