//! What can go wrong besides CANN itself.

/// A failure of the backend.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// CANN, the device or a call of it.
    #[error(transparent)]
    Cann(#[from] crate::Error),
    /// A device that the machine has not.
    #[error("there is no NPU {index}: CANN counts {count} on this machine, numbered from 0")]
    NoDevice {
        /// The number that was asked for.
        index: usize,
        /// How many there are.
        count: u32,
    },
    /// A value of `BURN_CANN_FALLBACK` that means nothing.
    #[error(
        "BURN_CANN_FALLBACK is {found:?}: set it to `allow` (operations without an operator run on the \
         host) or `deny` (they are errors), or leave it unset, which allows"
    )]
    Setting {
        /// The value.
        found: String,
    },
    /// The operation would run on the host, which is denied.
    #[error(
        "{operation} can't run on the NPU ({reason}), and running on the host is denied. Change the \
         operands if the reason names them, use another operation, or allow it with \
         BURN_CANN_FALLBACK=allow"
    )]
    Denied {
        /// The operation.
        operation: &'static str,
        /// Why the device does not run it.
        reason: String,
    },
    /// An operation on a list of tensors was given none.
    #[error("it was given no tensors: give it at least one, which says the device")]
    NoTensor,
    /// A type of elements that the backend does not keep.
    #[error("{dtype:?} is not kept on the NPU: convert the data to {instead} first")]
    Dtype {
        /// The type.
        dtype: burn_backend::DType,
        /// What to use.
        instead: &'static str,
    },
}

/// The result of the backend's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation is not done on the device.
#[derive(Debug)]
pub(super) enum Declined {
    /// The device can't; the host shall.
    ToHost(String),
    /// The device failed.
    Failed(crate::Error),
}

/// What an operation on the device gives.
pub(super) type Native<T> = std::result::Result<T, Declined>;

impl Declined {
    pub(super) fn because(reason: impl Into<String>) -> Self {
        Self::ToHost(reason.into())
    }
}

impl From<crate::Error> for Declined {
    fn from(error: crate::Error) -> Self {
        match error {
            crate::Error::Refused(refusal) => Self::ToHost(refusal.to_string()),
            crate::Error::Missing(missing) => Self::ToHost(missing.to_string()),
            other => Self::Failed(other),
        }
    }
}

impl From<crate::LayoutError> for Declined {
    fn from(error: crate::LayoutError) -> Self {
        Self::Failed(error.into())
    }
}
