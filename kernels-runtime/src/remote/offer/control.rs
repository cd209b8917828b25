//! The questions of a client to a server: the description of a device, and the reason why a session ended.

use crate::remote::call::{Like, send_to};
use crate::remote::declaration::{Declaration, WORDS, from_words};
use crate::remote::sessions;
use burn::backend::{
    BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind, Remote,
    RemoteDevice, Shape,
};
use burn::tensor::{DType, ExecutionError, Int, Tensor};
use serde::Serialize;
use std::fmt;

/// The question for the declaration of a device.
pub const DECLARE: &str = "burn-kernels/declare";
/// The question for the reason why a session ended.
pub const ENDING: &str = "burn-kernels/ending";

/// The reason why a question has no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The server reports that the device can't answer.
    Device(String),
    /// The session ended, or the data is not an answer.
    Ended(String),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(reason) | Self::Ended(reason) => f.write_str(reason),
        }
    }
}

/// Opens a session with this number and asks for the description of the device. Sessions of one `party` may reduce
/// tensors together.
///
/// # Errors
/// Returns the known reason if the device fails, or `None` if the other side is not a server of this crate.
pub(in crate::remote) fn declaration(
    device: &RemoteDevice,
    session: u64,
    party: u64,
) -> Result<Declaration, Option<String>> {
    match ask(device, DECLARE, &(session, party)) {
        Ok(words) => Declaration::from_words(&words).ok_or(None),
        Err(Unanswered::Device(reason)) => Err(Some(reason)),
        // A server of this process keeps the message of the session. Another server can't be asked, because its answer
        // would come from the device too.
        Err(Unanswered::Ended(_)) => Err(sessions::ending(session)),
    }
}

/// Returns the message of the last panic of a session, or `None` if there was none.
pub(in crate::remote) fn failure(device: &RemoteDevice, session: u64) -> Option<String> {
    let words = ask(device, ENDING, &session).ok()?;
    from_words(&words).filter(|text| !text.is_empty())
}

/// Sends a question and waits for the answer.
pub(super) fn ask(
    device: &RemoteDevice,
    op: &'static str,
    numbers: &impl Serialize,
) -> Result<Vec<i32>, Unanswered> {
    let result: Like = (Shape::new([WORDS]), DType::I32);
    let [answer] = send_to(device, op, [result], numbers);
    let answer = Tensor::<1, Int>::from_dispatch(dispatch(BackendTensor::Int(answer)));
    let data = answer.try_into_data().map_err(|error| match error {
        // This keeps the backend's own message.
        ExecutionError::WithContext { reason } => Unanswered::Device(reason),
        other => Unanswered::Ended(other.to_string()),
    })?;
    let words = data.try_into_vec();
    words.map_err(|error| Unanswered::Ended(format!("{error:?}")))
}

pub(super) fn dispatch(tensor: BackendTensor<Remote>) -> DispatchTensor {
    DispatchTensor {
        kind: DispatchTensorKind::Remote(tensor),
        autodiff: DispatchAutodiffContext::Disabled,
    }
}
