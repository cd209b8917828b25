use serde::Serialize;
use std::fmt;

/// Why a site computes its reference. The same words in reports, plans, errors and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Reason {
    /// The policy switches the kernel off.
    Policy = 1,
    /// No kernel with the site's id is linked in.
    UnknownKernel,
    /// The kernel has no implementation for the device.
    NoImplementation,
    /// The implementation computes something else than the site.
    Semantics,
    /// The implementation does not take the tensors' type.
    Dtype,
    /// The tensors of the call have different types.
    MixedDtypes,
    /// The implementation has no gradient and autodiff is enabled.
    NoGradient,
    /// The site's condition, `when = …`, is false for this instance.
    Condition,
}

impl Reason {
    const ALL: [Self; 8] = [
        Self::Policy,
        Self::UnknownKernel,
        Self::NoImplementation,
        Self::Semantics,
        Self::Dtype,
        Self::MixedDtypes,
        Self::NoGradient,
        Self::Condition,
    ];

    pub(super) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u8 == code)
    }

    /// What a user can do about it.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Policy => "enable it in the policy (`BURN_KERNELS`, `--kernels`)",
            Self::UnknownKernel => "enable the feature or link the crate that defines the kernel",
            Self::NoImplementation => {
                "use a device that `kernels list` shows for this kernel, or switch it off"
            }
            Self::Semantics => "name a kernel that computes what this site does",
            Self::Dtype => "cast the tensors to a type that `kernels list` shows for this kernel",
            Self::MixedDtypes => "cast the layer's tensors to one dtype",
            Self::NoGradient => "run it without autodiff, or switch it off",
            Self::Condition => "the attribute's `when` excludes this instance; switch it off here",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Policy => "switched off by the policy",
            Self::UnknownKernel => "no kernel of this id is linked in",
            Self::NoImplementation => "no implementation for this device",
            Self::Semantics => "the implementation computes something else",
            Self::Dtype => "the implementation does not take this dtype",
            Self::MixedDtypes => "the tensors have different dtypes",
            Self::NoGradient => "the implementation has no gradient",
            Self::Condition => "the site's condition is false",
        })
    }
}
