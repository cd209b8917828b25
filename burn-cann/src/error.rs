//! What can go wrong.

use cann_sys::{LoadError, MissingSymbol};

use crate::code::Code;
use crate::layout::LayoutError;
use crate::memory::Statistics;
use crate::ops::Refusal;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of CANN, or a request that it is never asked.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// CANN could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The toolkit lacks a function.
    #[error(transparent)]
    Missing(#[from] MissingSymbol),
    /// A function of CANN failed.
    #[error("{function} failed with {code}{}{}", said(.message), advised(*.code))]
    Call {
        /// The function.
        function: &'static str,
        /// What it returned.
        code: Code,
        /// CANN's own words (`aclGetRecentErrMsg`), if there were any.
        message: Option<String>,
    },
    /// A function of CANN returned NULL or something else that it must not.
    #[error("{function} {what}{}", said(.message))]
    Unusable {
        /// The function.
        function: &'static str,
        /// What it did.
        what: &'static str,
        /// CANN's own words, if there were any.
        message: Option<String>,
    },
    /// The device has too little memory, even without the allocator's cache.
    #[error(
        "device {device} is out of memory: {bytes} bytes were asked for, with {} bytes in use, \
         {} at the peak, and an empty cache. Use smaller tensors or drop some",
        .statistics.in_use, .statistics.peak
    )]
    OutOfMemory {
        /// The device.
        device: i32,
        /// What was asked for.
        bytes: usize,
        /// The allocator's figures at that moment.
        statistics: Statistics,
    },
    /// Earlier work on a stream failed, which was told then: what it wrote can't be relied on, and the
    /// stream takes no more. Work goes on with another stream and tensors that are made anew.
    #[error("it builds on work that failed before: {0}")]
    FailedBefore(Box<Error>),
    /// The operator does not take these operands; nothing was called.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A view that does not lie within its memory, or is malformed.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Two things of different devices were used together.
    #[error("{what} is on device {found}, the stream on device {stream}: copy it there first")]
    OtherDevice {
        /// What was used.
        what: &'static str,
        /// Its device.
        found: i32,
        /// The stream's device.
        stream: i32,
    },
    /// Host data does not fit the tensor.
    #[error("the host has {found} elements for a tensor of {expected}")]
    Length {
        /// Elements on the host.
        found: usize,
        /// Elements of the tensor.
        expected: usize,
    },
    /// Host data has another type than the tensor.
    #[error("the tensor is of type {expected}, the host's data of type {found}")]
    Dtype {
        /// The host's type.
        found: crate::DType,
        /// The tensor's type.
        expected: crate::DType,
    },
    /// CANN was finalised before, or can't be yet.
    #[error("{0}")]
    Lifetime(&'static str),
}

fn advised(code: Code) -> String {
    let advice = code.advice().map(|advice| format!(". {advice}"));
    advice.unwrap_or_default()
}

fn said(message: &Option<String>) -> String {
    match message {
        Some(message) => format!(". CANN says: {message}"),
        None => ". CANN says nothing more".to_owned(),
    }
}
