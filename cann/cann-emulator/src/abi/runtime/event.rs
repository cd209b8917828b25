//! Events.

use std::time::Duration;

use cann_sys::errors::*;
use cann_sys::runtime::*;

use super::{function, give, timeout};
use crate::error::{Outcome, ensure, fail};
use crate::state;
use crate::stream::Task;

fn new_event(place: *mut aclrtEvent) -> Outcome<()> {
    ensure!(!place.is_null(), ACL_ERROR_INVALID_PARAM; "the place for the event is NULL");
    // SAFETY: checked above, and the caller guarantees the place.
    unsafe { give(place, state::create_event()? as aclrtEvent) }
}

function!(aclrtCreateEvent(event: *mut aclrtEvent) { new_event(event) });
function!(aclrtCreateEventWithFlag(event: *mut aclrtEvent, _flags: u32) { new_event(event) });
function!(aclrtCreateEventExWithFlag(event: *mut aclrtEvent, _flags: u32) { new_event(event) });
function!(aclrtDestroyEvent(event: aclrtEvent) { state::destroy_event(event as usize) });
function!(aclrtRecordEvent(event: aclrtEvent, stream: aclrtStream) {
    let (event, stream) = (state::event(event as usize)?, state::stream(stream as usize)?);
    let turn = event.record();
    stream.enqueue(Task::Record(event, turn))
});

fn wait_for(stream: aclrtStream, event: aclrtEvent, limit: Option<Duration>) -> Outcome<()> {
    let event = state::event(event as usize)?;
    let stream = state::stream(stream as usize)?;
    let turn = event.turn();
    event.awaited();
    stream.enqueue(Task::Wait(event, turn, limit))
}

function!(aclrtStreamWaitEvent(stream: aclrtStream, event: aclrtEvent) { wait_for(stream, event, None) });
// A wait that takes too long is an error of the stream.
function!(aclrtStreamWaitEventWithTimeout(stream: aclrtStream, event: aclrtEvent, milliseconds: i32) {
    wait_for(stream, event, timeout(milliseconds)?)
});
function!(aclrtSetOpWaitTimeout(_seconds: u32) { state::current_device().map(drop) });
function!(aclrtResetEvent(event: aclrtEvent, stream: aclrtStream) {
    let (event, stream) = (state::event(event as usize)?, state::stream(stream as usize)?);
    let turn = event.records();
    stream.enqueue(Task::Reset(event, turn))
});
function!(aclrtQueryEvent(event: aclrtEvent, status: *mut aclrtEventStatus) {
    let complete = state::event(event as usize)?.is_complete();
    let found = if complete { ACL_EVENT_STATUS_COMPLETE } else { ACL_EVENT_STATUS_NOT_READY };
    // SAFETY: the caller guarantees the place.
    unsafe { give(status, found) }
});
function!(aclrtQueryEventStatus(event: aclrtEvent, status: *mut aclrtEventRecordedStatus) {
    let complete = state::event(event as usize)?.is_complete();
    let found = if complete { ACL_EVENT_RECORDED_STATUS_COMPLETE } else { ACL_EVENT_RECORDED_STATUS_NOT_READY };
    // SAFETY: the caller guarantees the place.
    unsafe { give(status, found) }
});
function!(aclrtQueryEventWaitStatus(event: aclrtEvent, status: *mut aclrtEventWaitStatus) {
    let passed = state::event(event as usize)?.is_passed();
    let found = if passed { ACL_EVENT_WAIT_STATUS_COMPLETE } else { ACL_EVENT_WAIT_STATUS_NOT_READY };
    // SAFETY: the caller guarantees the place.
    unsafe { give(status, found) }
});

/// Waits for an event. Returns the error of the stream that reached it.
fn synchronize_event(event: aclrtEvent, limit: Option<Duration>) -> Outcome<()> {
    let event = state::event(event as usize)?;
    ensure!(event.is_recorded(), ACL_ERROR_RT_PARAM_INVALID;
        "the event was never recorded: this would wait for ever");
    ensure!(event.wait(event.turn(), limit), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT;
        "the event's stream did not come to it in time");
    event.failure().map_or(Ok(()), Err)
}

function!(aclrtSynchronizeEvent(event: aclrtEvent) { synchronize_event(event, None) });
function!(aclrtSynchronizeEventWithTimeout(event: aclrtEvent, milliseconds: i32) {
    synchronize_event(event, timeout(milliseconds)?)
});
function!(aclrtEventGetTimestamp(event: aclrtEvent, microseconds: *mut u64) {
    let Some(at) = state::event(event as usize)?.completed_at() else {
        fail!(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID; "the event was not recorded, or its stream has not come to it")
    };
    // SAFETY: the caller guarantees the place.
    unsafe { give(microseconds, crate::event::timestamp(at)) }
});
function!(aclrtGetEventId(event: aclrtEvent, id: *mut u32) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(id, state::event(event as usize)?.id) }
});
function!(aclrtEventElapsedTime(milliseconds: *mut f32, start: aclrtEvent, end: aclrtEvent) {
    let times = (state::event(start as usize)?.completed_at(), state::event(end as usize)?.completed_at());
    let (Some(start), Some(end)) = times else {
        fail!(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID; "an event was not recorded, or its stream has not come to it")
    };
    let Some(elapsed) = end.checked_duration_since(start) else {
        fail!(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL; "the end came before the start")
    };
    // SAFETY: the caller guarantees the place.
    unsafe { give(milliseconds, elapsed.as_secs_f32() * 1000.0) }
});
