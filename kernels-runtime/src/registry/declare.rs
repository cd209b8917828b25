//! The definition of a kernel in the registry and in the built file.

use super::{KernelSpec, Launch};

/// Defines a kernel: registers it and writes its record into the link section of the built file.
///
/// The macro records the crate and its version. The field `replaces: Some("package")` is optional and must come first.
/// With it, this kernel replaces the one that `package` registers under the same id. Without it, two kernels of one id
/// are an error (see [`check`](super::check)).
///
/// The compiler links a crate only if the program names it. If nothing else does, as with a kernel that replaces another or
/// that only a mapping names, the program needs `use the_crate as _;`. Without it, the kernel is not in the registry.
///
/// At compile time, it checks that the id is a word and that every launch belongs to the operation.
///
/// ```
/// # extern crate kernels_runtime as burn_kernels;
/// use burn_kernels::declare_kernel;
/// use burn_kernels::dispatch::DeviceKinds;
/// use burn_kernels::registry::{
///     CapabilityRange, FloatType, Gradient, Implementation, KernelSpec, Launch,
/// };
///
/// declare_kernel! {
///     /// Soft capping of logits.
///     pub static SOFT_CAP = KernelSpec {
///         id: "acme_soft_cap",
///         op: "soft_cap",
///         version: 1,
///         summary: "cap · tanh(x / cap) in one pass",
///         implementations: &[Implementation {
///             device: DeviceKinds::CPU,
///             name: "acme-cpu",
///             dtypes: &[FloatType::F32],
///             gradient: Gradient::None,
///             deterministic: true,
///             fusion_barrier: false,
///             capability: CapabilityRange::ANY,
///             accepts: |key| key.op() == "soft_cap",
///             limits: None,
///             operators: None,
///             launch: Launch::Custom,
///         }],
///     };
/// }
/// # fn main() {
/// assert!(burn_kernels::registry::kernel("acme_soft_cap").is_some());
/// # }
/// ```
#[macro_export]
macro_rules! declare_kernel {
    (
        $(#[$attr:meta])* $vis:vis static $name:ident = $spec:ident {
            replaces: $replaces:expr,
            $($field:ident: $value:expr),+ $(,)?
        };
    ) => {
        $(#[$attr])*
        #[$crate::__private::linkme::distributed_slice($crate::registry::KERNELS)]
        #[linkme(crate = $crate::__private::linkme)]
        $vis static $name: &'static $crate::registry::KernelSpec = {
            const SPEC: $crate::registry::KernelSpec = $spec {
                krate: $crate::__private::or_unknown(::core::option_env!("CARGO_PKG_NAME")),
                crate_version: $crate::__private::or_unknown(::core::option_env!(
                    "CARGO_PKG_VERSION"
                )),
                replaces: $replaces,
                $($field: $value),+
            };
            const _: () = $crate::registry::assert_well_formed(&SPEC);
            static STORED: $crate::registry::KernelSpec = SPEC;
            const LEN: usize = $crate::registry::section::kernel_record::<0>(&SPEC).1;
            $crate::__in_link_section! {
                static RECORD: [u8; LEN] = $crate::registry::section::kernel_record::<LEN>(&SPEC).0;
            }
            &STORED
        };
    };
    (
        $(#[$attr:meta])* $vis:vis static $name:ident = $spec:ident {
            $($field:ident: $value:expr),+ $(,)?
        };
    ) => {
        $crate::declare_kernel! {
            $(#[$attr])* $vis static $name = $spec {
                replaces: ::core::option::Option::None,
                $($field: $value),+
            };
        }
    };
}

/// Makes the compile-time checks of [`declare_kernel!`](crate::declare_kernel).
#[doc(hidden)]
pub const fn assert_well_formed(spec: &KernelSpec) {
    assert!(
        is_id(spec.id),
        "the id of a kernel is letters, digits, `_` and `-`"
    );
    let mut i = 0;
    while i < spec.implementations.len() {
        if !spec.implementations[i].launch.belongs_to(spec.op) {
            panic!("{}", Launch::PAIRS);
        }
        i += 1;
    }
}

/// Returns `true` if a policy can name this id. Other words are patterns of site names.
pub(super) const fn is_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if !(bytes[i].is_ascii_alphanumeric() || matches!(bytes[i], b'_' | b'-')) {
            return false;
        }
        i += 1;
    }
    !bytes.is_empty() && bytes[0] != b'-'
}
