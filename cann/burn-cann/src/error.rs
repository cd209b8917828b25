//! Errors of this crate.

use cann_sys::{LoadError, MissingSymbol};

use crate::code::Code;
use crate::layout::LayoutError;
use crate::memory::Statistics;
use crate::ops::Refusal;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of CANN, or a request that this crate refuses before it calls CANN.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// CANN could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The toolkit lacks a function.
    #[error(transparent)]
    Missing(#[from] MissingSymbol),
    /// A function of CANN returned an error code.
    #[error("{function} failed with {code}{}{}", said(.message), advised(*.code))]
    Call {
        /// The function.
        function: &'static str,
        /// The code that it returned.
        code: Code,
        /// CANN's message (`aclGetRecentErrMsg`), if there is one.
        message: Option<String>,
    },
    /// A function of CANN returned NULL or another invalid result.
    #[error("{function} {what}{}", said(.message))]
    Unusable {
        /// The function.
        function: &'static str,
        /// A description of the result.
        what: &'static str,
        /// CANN's message, if there is one.
        message: Option<String>,
    },
    /// The device has too little memory, even with an empty allocator cache.
    #[error(
        "device {device} is out of memory: {bytes} bytes were asked for, with {} bytes in use, \
         {} at the peak, and an empty cache. Use smaller tensors or drop some",
        .statistics.in_use, .statistics.peak
    )]
    OutOfMemory {
        /// The device.
        device: i32,
        /// The number of bytes requested.
        bytes: usize,
        /// The allocator's figures at that moment.
        statistics: Statistics,
    },
    /// Earlier work on a stream failed, and a wait has returned that failure. The stream takes no more work, and
    /// tensors that it wrote can't be used. Another stream works, with new tensors.
    #[error("it builds on work that failed before: {0}")]
    FailedBefore(Box<Error>),
    /// The operator does not take these operands. Nothing was called.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The view is malformed or reaches beyond its memory.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Two things of different devices were used together.
    #[error("{what} is on device {found}, the stream on device {stream}: copy it there first")]
    OtherDevice {
        /// The thing that was used.
        what: &'static str,
        /// Its device.
        found: i32,
        /// The stream's device.
        stream: i32,
    },
    /// The number of elements on the host is not that of the tensor.
    #[error("the host has {found} elements for a tensor of {expected}")]
    Length {
        /// The number of elements on the host.
        found: usize,
        /// The number of elements of the tensor.
        expected: usize,
    },
    /// The host's data has another dtype than the tensor.
    #[error("the tensor is of type {expected}, the host's data of type {found}")]
    Dtype {
        /// The host's dtype.
        found: crate::DType,
        /// The tensor's dtype.
        expected: crate::DType,
    },
    /// Devices that reduce tensors together lost one of them, or did not agree on a call.
    #[error("{0}")]
    Collective(String),
    /// CANN was finalised before, or can't be finalised yet.
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
