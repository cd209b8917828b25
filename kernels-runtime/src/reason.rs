use crate::near::unknown;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Declares the reasons once, so that none can be missing from a list.
macro_rules! reasons {
    ($(
        $(#[doc = $doc:literal])+
        $variant:ident = $code:literal, $name:literal, $text:literal, $advice:literal;
    )+) => {
        /// The reason why a site computes its reference, or does not follow a mapping. Reports, plans, errors, logs and
        /// policies use the same words.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Reason {
            $($(#[doc = $doc])+ $variant = $code,)+
        }

        impl Reason {
            /// All reasons.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name in policies and JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the advice for users.
            pub const fn advice(self) -> &'static str {
                match self {
                    $(Self::$variant => $advice,)+
                }
            }
        }

        impl fmt::Display for Reason {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $text,)+
                })
            }
        }
    };
}

reasons! {
    /// The policy switches the kernel or the site off.
    Policy = 1, "policy", "switched off by the policy",
        "enable it in the policy (`BURN_KERNELS`, `--kernels`)";
    /// No kernel with the site's id is linked in.
    UnknownKernel = 2, "unknown_kernel", "no kernel of this id is linked in",
        "enable the feature or link the crate that defines the kernel";
    /// The kernel has no implementation for the device.
    NoImplementation = 3, "no_implementation", "no implementation for this device",
        "use a device that `kernels list` shows for this kernel, or switch it off";
    /// The implementation computes something different from the site.
    Semantics = 4, "semantics", "the implementation computes something else",
        "name a kernel that computes what this site does";
    /// The implementation does not take the dtype of the tensors.
    Dtype = 5, "dtype", "the implementation does not take this dtype",
        "cast the tensors to a type that `kernels list` shows for this kernel";
    /// The tensors of the call have different dtypes.
    MixedDtypes = 6, "mixed_dtypes", "the tensors have different dtypes",
        "cast the layer's tensors to one dtype";
    /// The implementation has no gradient and autodiff is enabled.
    NoGradient = 7, "no_gradient", "the implementation has no gradient",
        "run it without autodiff, or switch it off";
    /// The site's condition, `when = …`, is false for this instance.
    Condition = 8, "condition", "the site's condition is false",
        "the attribute's `when` excludes this instance; switch it off here";
    /// The implementation is for other generations of the device.
    Capability = 9, "capability", "the implementation is not for this generation of the device",
        "`kernels list` shows the capabilities that each implementation is for";
    /// The implementation may give different bits from run to run, and the policy asks for a deterministic one.
    NotDeterministic = 10, "not_deterministic", "the implementation is not deterministic",
        "leave `deterministic` out of the policy, or switch the kernel off";
    /// The implementation would break Burn's fusion, and the mode asks for fusion.
    FusionBarrier = 11, "fusion_barrier", "the implementation ends Burn's fusion stream",
        "leave `compile` out of the mode, or map the layer to another kernel";
    /// The implementation does not take tensors of this shape.
    Shape = 12, "shape", "the implementation does not take this shape",
        "see the limits that the kernel documents, or switch it off here";
    /// The implementation does not take tensors of this memory layout.
    Layout = 13, "layout", "the implementation does not take this layout",
        "make the tensors contiguous, or switch the kernel off here";
    /// Something that the implementation needs at run time, such as a library, is missing.
    CannotLoad = 14, "cannot_load", "what the implementation needs is not there",
        "install what the kernel documents, or switch it off";
    /// The mapping gives the layer its reference.
    Mapping = 16, "mapping", "the mapping says so",
        "map the layer to a kernel, or leave it out of the mapping";
    /// The mapping has no entry for the layer.
    NoLayer = 17, "no_layer", "the mapping has no such layer",
        "add the layer to the mapping";
    /// The mapping has an entry for the layer, but not on this kind of device.
    NoDevice = 18, "no_device", "the mapping has nothing for this device",
        "add the device to the layer's mapping";
    /// The mapping has an entry for the layer on this kind of device, but not for its capability.
    NoCapability = 19, "no_capability", "the mapping has nothing for this capability",
        "add an interval of capabilities to the layer's mapping";
    /// The mapping has no entry for this mode.
    NoMode = 20, "no_mode", "the mapping has nothing for this mode",
        "add the mode, or a fallback, to the layer's mapping";
    /// A projection of the site is not a plain `Linear` with float weights: it has an adapter, is quantised or is
    /// another layer. The site calls its own `forward`.
    Layers = 21, "layers", "a projection is not a plain `Linear`",
        "merge adapters and dequantise weights to run the kernel, or switch it off here";
    /// Experts of the site have low-rank adapters, which grouped kernels compute in place of the site's kernel.
    Adapters = 23, "adapters", "experts have adapters",
        "merge the adapters to run the kernel, or switch it off here";
    /// The policy tunes, and the reference was measured to be faster for calls of these sizes.
    Tuned = 24, "tuned", "the reference is faster, as measured",
        "`+ID` or `strict:tuned` in the policy keeps the kernel; without `tune`, nothing is measured";
    /// The server of the device does not declare the kernel.
    NotServed = 22, "not_served", "the device's server does not have the kernel",
        "serve the device with `kernels serve` of this release, or switch the kernel off";
}

impl FromStr for Reason {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().copied();
        known
            .clone()
            .find(|reason| reason.name() == name)
            .ok_or_else(|| unknown("reason", name, known.map(Self::name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_and_agree_with_serde() {
        for reason in Reason::ALL {
            assert_eq!(reason.name().parse(), Ok(*reason));
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
        }
        let message = "dtyp".parse::<Reason>().unwrap_err();
        assert!(message.contains("did you mean `dtype`?"), "{message}");
    }
}
