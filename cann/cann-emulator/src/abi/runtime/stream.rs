//! Streams.

use cann_sys::errors::*;
use cann_sys::runtime::*;

use super::{function, give, timeout};
use crate::error::{Outcome, ensure, fail};
use crate::state;
use crate::stream::Settings;

pub(in crate::abi) fn new_stream(place: *mut aclrtStream, settings: Settings) -> Outcome<()> {
    ensure!(!place.is_null(), ACL_ERROR_INVALID_PARAM; "the place for the stream is NULL");
    ensure!(settings.priority <= 7, ACL_ERROR_RT_PARAM_INVALID;
        "a priority of {}; there are 0, the highest, to 7", settings.priority);
    // SAFETY: checked above, and the caller guarantees the place.
    unsafe { give(place, state::create_stream(settings)? as aclrtStream) }
}

function!(aclrtCreateStream(stream: *mut aclrtStream) { new_stream(stream, Settings::default()) });
function!(aclrtCreateStreamWithConfig(stream: *mut aclrtStream, priority: u32, flags: u32) {
    new_stream(stream, Settings { priority, flags })
});
function!(aclrtDestroyStream(stream: aclrtStream) { state::destroy_stream(stream as usize, false) });
function!(aclrtDestroyStreamForce(stream: aclrtStream) { state::destroy_stream(stream as usize, true) });
function!(aclrtSynchronizeStream(stream: aclrtStream) {
    state::stream(stream as usize)?.synchronize(None)
});
function!(aclrtSynchronizeStreamWithTimeout(stream: aclrtStream, milliseconds: i32) {
    state::stream(stream as usize)?.synchronize(timeout(milliseconds)?)
});
// A stream with failed work is never complete: the query returns the failure.
function!(aclrtStreamQuery(stream: aclrtStream, status: *mut aclrtStreamStatus) {
    let idle = state::stream(stream as usize)?.is_idle()?;
    // SAFETY: the caller guarantees the place.
    unsafe { give(status, if idle { ACL_STREAM_STATUS_COMPLETE } else { ACL_STREAM_STATUS_NOT_READY }) }
});
function!(aclrtStreamGetId(stream: aclrtStream, id: *mut i32) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(id, state::stream(stream as usize)?.id) }
});
function!(aclrtStreamGetPriority(stream: aclrtStream, priority: *mut u32) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(priority, state::stream(stream as usize)?.settings.priority) }
});
function!(aclrtStreamGetFlags(stream: aclrtStream, flags: *mut u32) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(flags, state::stream(stream as usize)?.settings.flags) }
});
function!(aclrtSetStreamFailureMode(stream: aclrtStream, mode: u64) {
    state::stream(stream as usize)?;
    match u32::try_from(mode) {
        Ok(ACL_CONTINUE_ON_FAILURE) => Ok(()),
        Ok(ACL_STOP_ON_FAILURE) => {
            // On these processors the mode applies to all streams of the context.
            state::streams_of_context()?.iter().for_each(|stream| stream.stop_on_failure());
            Ok(())
        }
        _ => fail!(ACL_ERROR_RT_PARAM_INVALID; "unknown failure mode {mode}"),
    }
});

/// The numbers of streams and events that the emulator reports for a device. It has no limits of its own.
const STREAMS: usize = 1984;
const EVENTS: usize = 65_535;

function!(aclrtGetStreamAvailableNum(count: *mut u32) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(count, STREAMS.saturating_sub(state::counts()?.0) as u32) }
});
function!(aclrtGetEventAvailNum(count: *mut u32) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(count, EVENTS.saturating_sub(state::counts()?.1) as u32) }
});
