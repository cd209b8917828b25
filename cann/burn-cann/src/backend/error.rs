//! Errors of the backend.

/// A failure of the backend.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A failure of CANN, the device or a call.
    #[error(transparent)]
    Cann(#[from] crate::Error),
    /// The machine has no such device.
    #[error("NPU {index} does not exist: CANN counts {count} on this machine, numbered from 0")]
    NoDevice {
        /// The requested number.
        index: usize,
        /// The number of devices.
        count: u32,
    },
    /// The value of `BURN_CANN_FALLBACK` is not known.
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
        /// The reason why the device does not run it.
        reason: String,
    },
    /// An operation on a list of tensors got an empty list.
    #[error("it was given no tensors: give it at least one, which says the device")]
    NoTensor,
    /// The backend does not store elements of this dtype.
    #[error("{dtype:?} is not kept on the NPU: convert the data to {instead} first")]
    Dtype {
        /// The dtype.
        dtype: burn_backend::DType,
        /// The dtype to use in its place.
        instead: &'static str,
    },
}

/// The result of the backend's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why an operation did not run on the device.
#[derive(Debug)]
pub(super) enum Declined {
    /// The device can't run it, so the host does.
    ToHost(String),
    /// The device failed.
    Failed(crate::Error),
}

/// The result of an operation on the device.
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
