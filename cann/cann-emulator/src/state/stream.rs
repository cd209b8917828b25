//! Streams and events.

use std::sync::Arc;

use cann_sys::errors::*;

use super::{close, process};
use crate::error::{Outcome, ensure, fail};
use crate::event::Event;
use crate::stream::{Settings, Stream};

pub(crate) fn create_stream(settings: Settings) -> Outcome<usize> {
    let mut process = process();
    let (context, device) = process
        .current()
        .map(|(handle, context)| (handle, context.device))?;
    let stream = Arc::new(Stream::start(device, context, settings)?);
    let handle = process.handle();
    process.streams.insert(handle, stream);
    Ok(handle)
}

pub(crate) fn destroy_stream(handle: usize, force: bool) -> Outcome<()> {
    let stream = {
        let mut process = process();
        ensure!(
            handle != 0 && handle != process.current()?.1.default_handle, ACL_ERROR_INVALID_PARAM;
            "the default stream cannot be destroyed"
        );
        process.stream(handle)?;
        process.streams.remove(&handle)
    };
    close(stream.into_iter().collect(), force);
    Ok(())
}

/// Returns the stream of a handle. NULL is the default stream of the thread's context.
pub(crate) fn stream(handle: usize) -> Outcome<Arc<Stream>> {
    process().stream(handle)
}

/// Returns the handle of the current context's default stream.
pub(crate) fn default_stream() -> Outcome<usize> {
    Ok(process().current()?.1.default_handle)
}

/// Returns all streams of the current context.
pub(crate) fn streams_of_context() -> Outcome<Vec<Arc<Stream>>> {
    let process = process();
    let (handle, context) = process.current()?;
    let own = process
        .streams
        .values()
        .filter(|stream| stream.context == handle);
    let default = std::iter::once(&context.default_stream);
    Ok(default.chain(own).cloned().collect())
}

/// Returns all streams of the current device.
pub(crate) fn streams_of_device() -> Outcome<Vec<Arc<Stream>>> {
    let process = process();
    let device = process.current()?.1.device;
    let default = process
        .contexts
        .values()
        .map(|context| &context.default_stream);
    let all = default.chain(process.streams.values());
    Ok(all
        .filter(|stream| stream.device == device)
        .cloned()
        .collect())
}

/// Returns the numbers of streams and of events.
pub(crate) fn counts() -> Outcome<(usize, usize)> {
    let process = process();
    process.current()?;
    Ok((process.streams.len(), process.events.len()))
}

pub(crate) fn create_event() -> Outcome<usize> {
    let mut process = process();
    process.current()?;
    let handle = process.handle();
    process.events.insert(handle, Arc::default());
    Ok(handle)
}

pub(crate) fn event(handle: usize) -> Outcome<Arc<Event>> {
    let process = process();
    process.config()?;
    match process.events.get(&handle) {
        Some(event) => Ok(event.clone()),
        None => fail!(ACL_ERROR_RT_INVALID_HANDLE; "{handle:#x} is not an event, or was destroyed"),
    }
}

pub(crate) fn destroy_event(handle: usize) -> Outcome<()> {
    event(handle)?.destroy();
    process().events.remove(&handle);
    Ok(())
}
