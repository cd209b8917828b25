//! Host functions in a stream.

use std::ffi::c_void;
use std::time::Duration;

use cann_sys::errors::*;
use cann_sys::runtime::*;

use super::runtime::function;
use crate::callback::{self, Function, Kind};
use crate::error::{Outcome, fail};
use crate::state;

/// Returns the calling thread, as `pthread_self` returns it and C++'s `std::thread::id` prints it.
fn this_thread() -> u64 {
    // SAFETY: the function has no requirements.
    unsafe { libc::pthread_self() as u64 }
}

fn bound(
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
) -> Outcome<Function> {
    let Some(function) = function else {
        fail!(ACL_ERROR_INVALID_PARAM; "the function is NULL")
    };
    let argument = argument as usize;
    // SAFETY: the caller guarantees the function with its argument, on whichever thread.
    Ok(Box::new(move || unsafe {
        function(argument as *mut c_void)
    }))
}

/// Converts a timeout. Unlike others, this one cannot be zero.
fn timeout(milliseconds: i32) -> Outcome<Option<Duration>> {
    match milliseconds {
        -1 => Ok(None),
        1.. => Ok(Some(Duration::from_millis(milliseconds as u64))),
        _ => fail!(ACL_ERROR_INVALID_PARAM; "a time of {milliseconds} ms; -1 waits for ever"),
    }
}

function!(aclrtSubscribeReport(thread: u64, stream: aclrtStream) {
    callback::subscribe(Kind::Report, thread, &*state::stream(stream as usize)?)
});
function!(aclrtUnSubscribeReport(thread: u64, stream: aclrtStream) {
    callback::unsubscribe(Kind::Report, thread, &*state::stream(stream as usize)?)
});
function!(aclrtProcessReport(milliseconds: i32) {
    callback::process(Kind::Report, this_thread(), timeout(milliseconds)?)
});
function!(aclrtLaunchCallback(
    function: aclrtCallback, argument: *mut c_void, blocking: aclrtCallbackBlockType, stream: aclrtStream
) {
    let blocking = match blocking {
        ACL_CALLBACK_NO_BLOCK => false,
        ACL_CALLBACK_BLOCK => true,
        other => fail!(ACL_ERROR_INVALID_PARAM; "unknown callback block type {}", other.0),
    };
    let stream = state::stream(stream as usize)?;
    callback::launch(Kind::Report, &stream, bound(function, argument)?, blocking)
});
function!(aclrtSubscribeHostFunc(thread: u64, stream: aclrtStream) {
    callback::subscribe(Kind::HostFunction, thread, &*state::stream(stream as usize)?)
});
function!(aclrtUnSubscribeHostFunc(thread: u64, stream: aclrtStream) {
    callback::unsubscribe(Kind::HostFunction, thread, &*state::stream(stream as usize)?)
});
function!(aclrtProcessHostFunc(milliseconds: i32) {
    callback::process(Kind::HostFunction, this_thread(), timeout(milliseconds)?)
});
function!(aclrtLaunchHostFunc(stream: aclrtStream, function: aclrtHostFunc, argument: *mut c_void) {
    let stream = state::stream(stream as usize)?;
    callback::launch(Kind::HostFunction, &stream, bound(function, argument)?, true)
});
