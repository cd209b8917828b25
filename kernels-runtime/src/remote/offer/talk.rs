//! What a client asks of a server before and after it runs anything: what the device is, and why a
//! session ended.

use crate::device::KernelOp;
use crate::remote::Host;
use crate::remote::bounded::Bounded;
use crate::remote::call::{self, Call, Like, exactly, send_to};
use crate::remote::hello::{Declaration, WORDS, from_words, to_words};
use crate::remote::sessions;
use crate::remote::wire::{Malformed, Writer};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::IntTensor;
use burn::backend::{
    BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind, Remote,
    RemoteDevice, Shape,
};
use burn::tensor::{DType, ExecutionError, Int, Tensor, TensorData};
use burn_remote::server::CustomOpRegistry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

const DECLARE: &str = "burn-kernels/declare";
const ENDING: &str = "burn-kernels/ending";

/// `offered` are the kernels of the server, `open` counts its sessions. What a device is, it is asked when a
/// client comes: so it is opened by its first one.
pub(super) fn register<B: Host>(
    registry: &mut CustomOpRegistry<Bounded<B>>,
    offered: Vec<KernelOp>,
    open: Arc<AtomicUsize>,
) {
    registry.register(DECLARE, move |handles, ir, device| {
        call::run::<B>(handles, ir, device, |call| {
            let session = call.scalars.number()?;
            let declaration = Declaration::new(B::identity(call.device), &offered);
            sessions::open(session as u64, &open);
            call.give_int(words::<B>(declaration.to_words(), call.device))
        });
    });
    registry.register(ENDING, |handles, ir, device| {
        call::run::<B>(handles, ir, device, |call| {
            let session = call.scalars.number()?;
            let text = sessions::ending(session as u64).unwrap_or_default();
            call.give_int(words::<B>(to_words(&text), call.device))
        });
    });
}

/// Text as a tensor.
pub(super) fn words_of<B: BackendIr>(call: &mut Call<'_, B>, text: &str) -> Result<(), Malformed> {
    call.give_int(words::<B>(to_words(text), call.device))
}

fn words<B: BackendIr>(words: Vec<i32>, device: &B::Device) -> IntTensor<B> {
    B::int_from_data(TensorData::new(words, [WORDS]), device)
}

/// Why a question has no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The device can't give it, the server says.
    Device(String),
    /// The session ended, or what came is no answer.
    Ended(String),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(reason) | Self::Ended(reason) => f.write_str(reason),
        }
    }
}

/// Opens a session under this number and asks what the device is.
///
/// # Errors
/// The device fails, with what is known of that; `None` if what answers is no server of ours.
pub(in crate::remote) fn declaration(
    device: &RemoteDevice,
    session: u64,
) -> Result<Declaration, Option<String>> {
    match ask(device, DECLARE, Writer::new().number(session as usize)) {
        Ok(words) => Declaration::from_words(&words).ok_or(None),
        Err(Unanswered::Device(reason)) => Err(Some(reason)),
        // A server of this process leaves what its session said. Another one can't be asked: its answer
        // would come from the device too.
        Err(Unanswered::Ended(_)) => Err(sessions::ending(session)),
    }
}

/// What the last panic of a session said; `None` if it had none.
pub(in crate::remote) fn failure(device: &RemoteDevice, session: u64) -> Option<String> {
    let words = ask(device, ENDING, Writer::new().number(session as usize)).ok()?;
    from_words(&words).filter(|text| !text.is_empty())
}

/// Sends a question and waits for the answer.
pub(super) fn ask(
    device: &RemoteDevice,
    op: &'static str,
    numbers: Writer,
) -> Result<Vec<i32>, Unanswered> {
    let output: Like = (Shape::new([WORDS]), DType::I32);
    let [answer] = exactly(send_to(device, op, Vec::new(), vec![output], numbers));
    let answer = Tensor::<1, Int>::from_dispatch(dispatch(BackendTensor::Int(answer)));
    let data = answer.try_into_data().map_err(|error| match error {
        // So a backend's own words arrive.
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
