//! The handlers of a server: those of its backend's kernels, and the answers to the questions of clients.

use super::bounded::{Bounded, Held, Served};
use super::custom_operation::Session;
use super::files::{Files, floats};
use super::{Host, Kernels};
use burn::backend::ir::{CustomOpIr, HandleContainer};
use burn::tensor::{FloatDType, TensorData};
use burn_remote::server::CustomOpRegistry;
use kernels_runtime::__serving::{
    Answer, Call, DECLARE, Declaration, ENDING, Handled, Handler, LOAD, LOOK, Malformed, WORDS,
    elements, ending, message, open, run, to_words,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Adds the answers that every server of this crate has: its description, the reason why a session ended, and the
/// reading of weights. `sessions` counts the sessions of the server.
pub(super) fn registry<B: Host>(
    kernels: Kernels<B>,
    sessions: Arc<AtomicUsize>,
    files: Files,
) -> CustomOpRegistry<Bounded<B>> {
    let mut registry = CustomOpRegistry::new();
    for (id, handler) in of_weights(of_sessions(kernels, sessions), files).into_handlers() {
        registry.register(id, move |handles, ir, device| {
            handle::<B>(handles, ir, device, &handler);
        });
    }
    registry
}

/// Runs a handler after memory for its results was reserved.
///
/// # Panics
/// Panics if the operation is not one that this build sends, or if its session has not enough memory. As with a panic
/// of the backend, the session ends. Burn's server has no other way to fail an operation, and the client asks for the
/// [reason](super::failure).
fn handle<B: Host>(
    handles: &mut HandleContainer<Held<B::Handle>>,
    ir: &CustomOpIr,
    device: &Served<B::Device>,
    handler: &Handler<B>,
) {
    let work = || {
        let mut session = Session::<B>::begin(handles, ir, device);
        let device = session.device.clone();
        run(ir, &mut session, &device, handler)?;
        session.end();
        Ok::<_, Malformed>(())
    };
    // A panic in Burn or in a kernel does not name the operation. The session ends after it, so unfinished changes are
    // never seen.
    let said = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return,
        Ok(Err(malformed)) => malformed.to_string(),
        Err(panic) => message(&*panic).to_owned(),
    };
    match said.contains(&ir.id) {
        true => panic!("{said}"),
        false => panic!("`{}`: {said}", ir.id),
    }
}

/// Adds the description of a device and the reason why a session ended. A device is asked for its description when a
/// client connects, so its first client opens it.
fn of_sessions<B: Host>(kernels: Kernels<B>, sessions: Arc<AtomicUsize>) -> Kernels<B> {
    let offered = kernels.offered().to_vec();
    kernels
        .handle(DECLARE, move |call, (session, party): (u64, u64)| {
            let declaration = Declaration::new(B::identity(call.device), &offered);
            open(session, &sessions);
            B::join_party(call.device, party);
            give(call, declaration.to_words())
        })
        .handle(ENDING, |call, session| {
            give(call, to_words(&ending(session).unwrap_or_default()))
        })
}

/// Adds the description of a tensor in a file, and the tensor.
fn of_weights<B: Host>(kernels: Kernels<B>, files: Files) -> Kernels<B> {
    let looked = files.clone();
    let kernels = kernels.handle(LOOK, move |call, (path, name): (String, String)| {
        let found = looked.look(&path, &name);
        let answer = found.and_then(|stored| {
            let dtype = floats(&name, stored.dtype)?;
            let shape = stored.shape;
            Ok(Answer::Stored { dtype, shape })
        });
        let answer = answer.unwrap_or_else(Answer::Refused);
        let text = serde_json::to_string(&answer).expect("text and numbers are JSON");
        give(call, to_words(&text))
    });
    kernels.handle(LOAD, move |call, numbers: (String, String, Vec<usize>)| {
        let (path, name, shape) = numbers;
        let missing = || Malformed::new("no result is asked for");
        let wanted = call.last_output().ok_or_else(missing)?.clone();
        let stored = files.look(&path, &name).map_err(Malformed::request)?;
        // The tensor is read in its stored type and then cast.
        let bytes = elements(&stored.shape).saturating_mul(stored.dtype.bitsize().div_ceil(8));
        call.room(bytes);
        let data = files.read(&path, &name).map_err(Malformed::request)?;
        let found = data.shape().as_slice();
        if found != shape || wanted.shape.num_elements() != data.num_elements() {
            return Err(Malformed::request(format_args!(
                "{path}: `{name}` has the shape {found:?}, not {shape:?}"
            )));
        }
        let (bytes, _, dtype) = data.into_parts();
        let data = TensorData::from_bytes(bytes, wanted.shape.clone(), dtype);
        let stored = data.dtype();
        let tensor = B::float_from_data(data, call.device);
        call.give(if stored == wanted.dtype {
            tensor
        } else {
            B::float_cast(tensor, FloatDType::from(wanted.dtype))
        })
    })
}

fn give<B: Host>(call: &mut Call<'_, B>, words: Vec<i32>) -> Handled {
    let words = TensorData::new(words, [WORDS]);
    call.give_int(B::int_from_data(words, call.device))
}
