//! How a kernel gets into the registry and into the built file.

use super::{KernelSpec, Launch};

/// Defines a kernel: registers it and writes its record into the link section of the built file.
///
/// The crate and its version are recorded. An optional `replaces: Some("package")`, which must
/// come first, says that this kernel takes the place of the one that `package` registers under the
/// same id; without it, two kernels of one id are an error (see [`check`](super::check)).
///
/// That the id is a word, and that every launch belongs to the operation, is checked at compile
/// time.
///
/// ```
/// use kernels_runtime::declare_kernel;
/// use kernels_runtime::dispatch::DeviceKinds;
/// use kernels_runtime::registry::{
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
///             launch: Launch::Custom,
///         }],
///     };
/// }
/// # fn main() {
/// assert!(kernels_runtime::registry::kernel("acme_soft_cap").is_some());
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

/// What [`declare_kernel!`](crate::declare_kernel) checks at compile time.
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

/// Whether a policy can name it: other words are patterns of site names.
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
