//! Streams made from a record of settings.

use std::ffi::c_void;

use cann_sys::errors::*;
use cann_sys::runtime::*;

use super::runtime::{function, new_stream};
use crate::abi::exports;
use crate::error::{Outcome, ensure, fail};
use crate::object::{self, Object};
use crate::stream::Settings;

fn settings(config: *const aclrtStreamConfigHandle) -> Outcome<Settings> {
    match object::get(config as usize) {
        Some(Object::StreamSettings(settings)) => Ok(settings),
        _ => fail!(ACL_ERROR_INVALID_PARAM;
            "{config:p} is not a configuration of streams, or was destroyed"),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtCreateStreamConfigHandle() -> *mut aclrtStreamConfigHandle {
    object::insert(Object::StreamSettings(Settings::default())) as *mut aclrtStreamConfigHandle
}
exports!(runtime: aclrtCreateStreamConfigHandle);

// Work memory for a stream is not emulated, because a stream needs none here.
function!(aclrtSetStreamConfigOpt(
    config: *mut aclrtStreamConfigHandle, what: aclrtStreamConfigAttr, value: *const c_void, size: usize
) {
    let mut found = settings(config)?;
    ensure!(!value.is_null(), ACL_ERROR_INVALID_PARAM; "the value is NULL");
    let field = match what {
        ACL_RT_STREAM_FLAG => &mut found.flags,
        ACL_RT_STREAM_PRIORITY => &mut found.priority,
        other => fail!(ACL_ERROR_RT_FEATURE_NOT_SUPPORT; "the setting {} of a stream is not emulated", other.0),
    };
    // CANN keeps flags as a size_t, so programs pass either size.
    *field = match size {
        // SAFETY: the caller guarantees as many bytes as the size says.
        4 => unsafe { value.cast::<u32>().read_unaligned() },
        // SAFETY: as above.
        8 => unsafe { value.cast::<u64>().read_unaligned() as u32 },
        _ => fail!(ACL_ERROR_INVALID_PARAM; "a value of {size} bytes; it has 4"),
    };
    object::replace(config as usize, Object::StreamSettings(found));
    Ok(())
});
function!(aclrtDestroyStreamConfigHandle(config: *mut aclrtStreamConfigHandle) {
    settings(config)?;
    object::remove(config as usize);
    Ok(())
});
function!(aclrtCreateStreamV2(stream: *mut aclrtStream, config: *const aclrtStreamConfigHandle) {
    let settings = if config.is_null() { Settings::default() } else { settings(config)? };
    new_stream(stream, settings)
});
