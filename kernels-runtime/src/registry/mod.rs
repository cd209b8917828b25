//! The registry: every kernel and every annotated site that is linked into the program.
//!
//! The linker collects both ([`linkme`]). No code runs before `main`, no directory is scanned, and nothing can fail
//! silently. A link section of the built file ([`section`]) holds the same facts as JSON. `kernels inspect` reads it
//! without running the program.
//!
//! With the feature `packages`, a program adds implementations of loaded packages before its first decision.
//!
//! Any crate can add kernels with [`declare_kernel!`](crate::declare_kernel). Several kernels may compute one
//! operation, each with its own id. Two kernels of the same id are an error ([`check`]) unless one declares that it
//! replaces the other.

#[cfg(feature = "packages")]
mod added;
mod capability;
mod declare;
mod gradient;
mod kernel;
mod resolve;
pub mod section;
mod spec;

pub use crate::declare_kernel;
pub use crate::dispatch::{SITES, Site, sites};
#[cfg(feature = "packages")]
pub(crate) use added::{Addition, Refusal, add};
pub use capability::CapabilityRange;
#[doc(hidden)]
pub use declare::assert_well_formed;
pub use gradient::Gradient;
pub use kernel::{FloatType, Implementation, KernelSpec, Launch, Limits, Operators};
pub use resolve::{RegistryError, RegistryProblem, check, kernel, kernels, replaced};
pub use spec::{Form, PathInside, SiteRecordError, SiteSpec};

use linkme::distributed_slice;

/// The facts that attributes know of every annotated site. The linker fills this slice.
#[doc(hidden)]
#[distributed_slice]
pub static SPECS: [&'static SiteSpec];

/// The kernel of the operations that a program calls without a site: the [steps](crate::dispatch) of mixtures. It runs
/// in programs without an annotated item of its kind, too.
pub(crate) const KERNEL_OF_STEPS: &str = "npu_fused_moe";

/// All kernels. The linker fills this slice.
#[doc(hidden)]
#[distributed_slice]
pub static KERNELS: [&'static KernelSpec];
