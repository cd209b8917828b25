//! Devices, memory, streams and events.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cann_sys::errors::*;
use cann_sys::runtime::*;

use crate::abi::exports;
use crate::error::{Failure, Outcome, ensure, fail, last_code, status, take_text};
use crate::memory::memory;
use crate::stream::Task;
use crate::{report, state, tensor};

/// Writes to a place that the caller gave.
///
/// # Safety
///
/// `place` is NULL or valid for a write.
unsafe fn give<T>(place: *mut T, value: T) -> Outcome<()> {
    ensure!(
        !place.is_null(),
        ACL_ERROR_INVALID_PARAM,
        "the place for the result is NULL"
    );
    // SAFETY: the caller vouches for it.
    unsafe { place.write(value) };
    Ok(())
}

macro_rules! function {
    ($name:ident($($argument:ident: $type:ty),*) $body:block) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> aclError {
            let work = || -> Outcome<()> { $body };
            status(stringify!($name), work())
        }
        exports!(runtime: $name);
    };
}

function!(aclInit(config_path: *const c_char) {
    if !config_path.is_null() {
        // SAFETY: the caller gives a C string.
        let path = unsafe { CStr::from_ptr(config_path) }.to_string_lossy().into_owned();
        ensure!(std::path::Path::new(&path).is_file(), ACL_ERROR_INVALID_FILE, "there is no file {path}");
    }
    state::initialise()
});

function!(aclFinalize() {
    report::keep(state::finalise()?);
    Ok(())
});

function!(aclrtGetVersion(major: *mut i32, minor: *mut i32, patch: *mut i32) {
    // SAFETY: the caller vouches for the places.
    unsafe { give(major, 1).and(give(minor, 13)).and(give(patch, 0)) }
});

/// `8.5.0` as major, minor, release and patch.
fn version_parts(version: &str) -> [String; 4] {
    let mut parts = version.split('.').map(str::to_owned);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

fn fill(field: &mut [c_char], text: &str) {
    // The last byte stays zero.
    let room = field.len() - 1;
    for (to, from) in field[..room].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
}

function!(aclsysGetCANNVersion(package: aclCANNPackageName, version: *mut aclCANNPackageVersion) {
    ensure!(package.0 <= ACL_PKG_NAME_DRIVER.0, ACL_ERROR_INVALID_PARAM, "no such package");
    let text = crate::config::current().map_err(|text| Failure::new(ACL_ERROR_INVALID_PARAM, text))?.version;
    let [major, minor, release, patch] = version_parts(&text);
    let mut made = aclCANNPackageVersion {
        version: [0; 128],
        majorVersion: [0; 64],
        minorVersion: [0; 64],
        releaseVersion: [0; 64],
        patchVersion: [0; 64],
        reserved: [0; 128],
    };
    fill(&mut made.version, &text);
    fill(&mut made.majorVersion, &major);
    fill(&mut made.minorVersion, &minor);
    fill(&mut made.releaseVersion, &release);
    fill(&mut made.patchVersion, &patch);
    // SAFETY: the caller vouches for the place.
    unsafe { give(version, made) }
});

function!(aclsysGetVersionStr(package: *mut c_char, version: *mut c_char) {
    ensure!(!package.is_null() && !version.is_null(), ACL_ERROR_INVALID_PARAM, "a pointer is NULL");
    let text = crate::config::current().map_err(|text| Failure::new(ACL_ERROR_INVALID_PARAM, text))?.version;
    let mut field = [0; ACL_PKG_VERSION_MAX_SIZE as usize];
    fill(&mut field, &text);
    // SAFETY: the documented size of the caller's buffer.
    unsafe { version.copy_from_nonoverlapping(field.as_ptr(), field.len()) };
    Ok(())
});

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclGetRecentErrMsg() -> *const c_char {
    take_text()
}
exports!(runtime: aclGetRecentErrMsg);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtPeekAtLastError(_level: aclrtLastErrLevel) -> aclError {
    last_code(false)
}
exports!(runtime: aclrtPeekAtLastError);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetLastError(_level: aclrtLastErrLevel) -> aclError {
    last_code(true)
}
exports!(runtime: aclrtGetLastError);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclDataTypeSize(data_type: aclDataType) -> usize {
    tensor::size_of(data_type).unwrap_or(0)
}
exports!(runtime: aclDataTypeSize);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetSocName() -> *const c_char {
    // One text per name that was ever configured: what was given out stays valid.
    static NAMES: Mutex<BTreeMap<String, CString>> = Mutex::new(BTreeMap::new());
    let Ok(config) = crate::config::current() else {
        return std::ptr::null();
    };
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let name = names
        .entry(config.soc.clone())
        .or_insert_with(|| CString::new(config.soc).unwrap_or_default());
    name.as_ptr()
}
exports!(runtime: aclrtGetSocName);

function!(aclrtGetDeviceCount(count: *mut u32) {
    // SAFETY: the caller vouches for the place.
    unsafe { give(count, state::config()?.devices) }
});
function!(aclrtSetDevice(device: i32) { state::set_device(device) });
function!(aclrtResetDevice(device: i32) { state::reset_device(device, false) });
function!(aclrtResetDeviceForce(device: i32) { state::reset_device(device, true) });
function!(aclrtGetDevice(device: *mut i32) {
    // SAFETY: the caller vouches for the place.
    unsafe { give(device, state::current_device()?) }
});
function!(aclrtGetRunMode(mode: *mut aclrtRunMode) {
    // SAFETY: the caller vouches for the place.
    unsafe { give(mode, ACL_HOST) }
});
function!(aclrtQueryDeviceStatus(device: i32, status: *mut aclrtDeviceStatus) {
    ensure!((0..state::config()?.devices as i32).contains(&device), ACL_ERROR_RT_INVALID_DEVICEID, "there is no device {device}");
    // SAFETY: the caller vouches for the place.
    unsafe { give(status, ACL_RT_DEVICE_STATUS_NORMAL) }
});
function!(aclrtDeviceCanAccessPeer(can: *mut i32, device: i32, peer: i32) {
    let devices = 0..state::config()?.devices as i32;
    ensure!(devices.contains(&device) && devices.contains(&peer) && device != peer, ACL_ERROR_RT_INVALID_DEVICEID, "two devices are needed");
    // SAFETY: the caller vouches for the place.
    unsafe { give(can, 1) }
});

fn timeout(milliseconds: i32) -> Outcome<Option<Duration>> {
    match milliseconds {
        -1 => Ok(None),
        1.. => Ok(Some(Duration::from_millis(milliseconds as u64))),
        _ => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "a time of {milliseconds} ms; -1 waits for ever"
        ),
    }
}

fn synchronize_device(timeout: Option<Duration>) -> Outcome<()> {
    // All are waited for, also if one is broken; the first error is reported.
    let waited: Vec<_> = state::streams_of_device()?
        .iter()
        .map(|stream| stream.synchronize(timeout))
        .collect();
    waited.into_iter().collect()
}

function!(aclrtSynchronizeDevice() { synchronize_device(None) });
function!(aclrtSynchronizeDeviceWithTimeout(milliseconds: i32) {
    synchronize_device(timeout(milliseconds)?)
});

function!(aclrtCreateContext(context: *mut aclrtContext, device: i32) {
    ensure!(!context.is_null(), ACL_ERROR_INVALID_PARAM, "the place for the context is NULL");
    // SAFETY: the caller vouches for the place.
    unsafe { give(context, state::create_context(device)? as aclrtContext) }
});
function!(aclrtDestroyContext(context: aclrtContext) { state::destroy_context(context as usize) });
function!(aclrtSetCurrentContext(context: aclrtContext) { state::set_context(context as usize) });
function!(aclrtGetCurrentContext(context: *mut aclrtContext) {
    // SAFETY: the caller vouches for the place.
    unsafe { give(context, state::current_context()? as aclrtContext) }
});
function!(aclrtCtxGetSysParamOpt(option: aclSysParamOpt, value: *mut i64) {
    // SAFETY: the caller vouches for the place.
    unsafe { give(value, state::option(option.0)?) }
});
function!(aclrtCtxSetSysParamOpt(option: aclSysParamOpt, value: i64) {
    ensure!(option.0 <= ACL_OPT_ENABLE_DEBUG_KERNEL.0, ACL_ERROR_INVALID_PARAM, "no such option");
    state::set_option(option.0, value)
});

fn allocate(address: *mut *mut c_void, size: usize) -> Outcome<()> {
    ensure!(
        !address.is_null(),
        ACL_ERROR_INVALID_PARAM,
        "the place for the address is NULL"
    );
    let made = state::allocate(size)?;
    // SAFETY: checked above, and the caller vouches for the place.
    unsafe { give(address, made as *mut c_void) }
}

function!(aclrtMalloc(address: *mut *mut c_void, size: usize, _policy: aclrtMemMallocPolicy) {
    allocate(address, size)
});
function!(aclrtMallocAlign32(address: *mut *mut c_void, size: usize, _policy: aclrtMemMallocPolicy) {
    allocate(address, size)
});
function!(aclrtMallocCached(address: *mut *mut c_void, size: usize, _policy: aclrtMemMallocPolicy) {
    allocate(address, size)
});
function!(aclrtFree(address: *mut c_void) { state::free(address as usize) });
function!(aclrtGetMemInfo(_attribute: aclrtMemAttr, free: *mut usize, total: *mut usize) {
    let limit = state::config()?.memory;
    let device = state::current_device()?;
    let used = memory().usage(device).used;
    // SAFETY: the caller vouches for the places.
    unsafe { give(free, limit - used).and(give(total, limit)) }
});
function!(aclrtPointerGetAttributes(address: *const c_void, attributes: *mut aclrtPtrAttributes) {
    state::config()?;
    let device = memory().device_of(address as usize);
    let location = aclrtMemLocation {
        id: device.unwrap_or(0) as u32,
        type_: if device.is_some() { ACL_MEM_LOCATION_TYPE_DEVICE } else { ACL_MEM_LOCATION_TYPE_HOST },
    };
    // SAFETY: the caller vouches for the place.
    unsafe { give(attributes, aclrtPtrAttributes { location, pageSize: 4096, rsv: [0; 4] }) }
});
function!(aclrtMallocHost(address: *mut *mut c_void, size: usize) {
    ensure!(!address.is_null(), ACL_ERROR_INVALID_PARAM, "the place for the address is NULL");
    // SAFETY: the caller vouches for the place.
    unsafe { give(address, state::pin(size)? as *mut c_void) }
});
function!(aclrtFreeHost(address: *mut c_void) { state::unpin(address as usize) });

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Host,
    Device,
}

/// Which side source and target are on, checked against what the caller says; CANN 9 doesn't care what
/// the caller says.
fn sides(to: usize, from: usize, kind: aclrtMemcpyKind) -> Outcome<(Side, Side)> {
    let config = state::config()?;
    let memory = memory();
    let side = |address| {
        if memory.is_device(address) {
            Side::Device
        } else {
            Side::Host
        }
    };
    let actual = (side(to), side(from));
    let said = match kind {
        _ if config.major() >= 9 => actual,
        ACL_MEMCPY_HOST_TO_HOST => (Side::Host, Side::Host),
        ACL_MEMCPY_HOST_TO_DEVICE => (Side::Device, Side::Host),
        ACL_MEMCPY_DEVICE_TO_HOST => (Side::Host, Side::Device),
        ACL_MEMCPY_DEVICE_TO_DEVICE => (Side::Device, Side::Device),
        ACL_MEMCPY_DEFAULT => actual,
        _ => fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "a copy of kind {}",
            kind.0
        ),
    };
    ensure!(
        said == actual,
        ACL_ERROR_RT_INVALID_MEMORY_TYPE,
        "the kind of the copy says another side than the addresses {to:#x} (to) and {from:#x} (from)"
    );
    Ok(said)
}

fn check_copy(to: usize, to_size: usize, from: usize, count: usize) -> Outcome<()> {
    ensure!(
        to != 0 && from != 0,
        ACL_ERROR_INVALID_PARAM,
        "an address is NULL"
    );
    ensure!(count > 0, ACL_ERROR_INVALID_PARAM, "a copy of 0 bytes");
    ensure!(
        count <= to_size,
        ACL_ERROR_RT_PARAM_INVALID,
        "{count} bytes into a target of {to_size}"
    );
    Ok(())
}

/// Copies now.
///
/// # Safety
///
/// Addresses on the host are valid for `count` bytes.
unsafe fn copy(to: usize, from: usize, count: usize, sides: (Side, Side)) -> Outcome<()> {
    let mut memory = memory();
    // SAFETY: of the host's, the caller vouches for it; and a host can't overlap a copy of the device's.
    unsafe {
        match sides {
            (Side::Host, Side::Host) => {
                std::ptr::copy(from as *const u8, to as *mut u8, count);
            }
            (Side::Device, Side::Host) => {
                let source = std::slice::from_raw_parts(from as *const u8, count);
                memory.bytes_mut(to, count)?.copy_from_slice(source);
            }
            (Side::Host, Side::Device) => {
                let bytes = memory.bytes(from, count)?;
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, count);
            }
            (Side::Device, Side::Device) => {
                let bytes = memory.bytes(from, count)?.to_vec();
                memory.bytes_mut(to, count)?.copy_from_slice(&bytes);
            }
        }
    }
    Ok(())
}

function!(aclrtMemcpy(to: *mut c_void, to_size: usize, from: *const c_void, count: usize, kind: aclrtMemcpyKind) {
    let (to, from) = (to as usize, from as usize);
    check_copy(to, to_size, from, count)?;
    state::current_device()?;
    let sides = sides(to, from, kind)?;
    // SAFETY: the caller vouches for its memory on the host.
    unsafe { copy(to, from, count, sides) }
});

// Asynchronous only from and to memory of aclrtMallocHost. Of other host memory the source is read at
// once, and a copy to it waits for the stream: neither is read or written later.
function!(aclrtMemcpyAsync(
    to: *mut c_void, to_size: usize, from: *const c_void, count: usize, kind: aclrtMemcpyKind, stream: aclrtStream
) {
    let (to, from) = (to as usize, from as usize);
    check_copy(to, to_size, from, count)?;
    let stream = state::stream(stream as usize)?;
    let sides = sides(to, from, kind)?;
    let host = match sides {
        (Side::Host, Side::Host) => {
            fail!(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "a copy on a stream from host to host")
        }
        (Side::Host, Side::Device) => Some(to),
        (Side::Device, Side::Host) => Some(from),
        (Side::Device, Side::Device) => None,
    };
    let pinned = host.is_none_or(|host| state::is_pinned(host, count));
    if !pinned && sides.0 == Side::Device {
        // SAFETY: the caller vouches for its memory on the host.
        let bytes = unsafe { std::slice::from_raw_parts(from as *const u8, count) }.to_vec();
        return stream.enqueue(Task::Kernel(Box::new(move |memory| {
            memory.bytes_mut(to, count)?.copy_from_slice(&bytes);
            Ok(())
        })));
    }
    if !pinned {
        stream.synchronize(None)?;
        // SAFETY: the caller vouches for its memory on the host.
        return unsafe { copy(to, from, count, sides) };
    }
    stream.enqueue(Task::Kernel(Box::new(move |memory| {
        if let Some(host) = host {
            ensure!(
                state::is_pinned(host, count),
                ACL_ERROR_RT_PARAM_INVALID,
                "the host memory of a copy was freed before the stream came to it"
            );
        }
        // SAFETY: of the host's, it is still what aclrtMallocHost gave.
        unsafe {
            match sides {
                (Side::Device, Side::Host) => {
                    let source = std::slice::from_raw_parts(from as *const u8, count);
                    memory.bytes_mut(to, count)?.copy_from_slice(source);
                }
                (Side::Host, _) => {
                    let bytes = memory.bytes(from, count)?;
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, count);
                }
                (Side::Device, Side::Device) => {
                    let bytes = memory.bytes(from, count)?.to_vec();
                    memory.bytes_mut(to, count)?.copy_from_slice(&bytes);
                }
            }
        }
        Ok(())
    })))
});

fn check_fill(address: *mut c_void, size: usize, count: usize) -> Outcome<usize> {
    ensure!(
        !address.is_null(),
        ACL_ERROR_INVALID_PARAM,
        "the address is NULL"
    );
    ensure!(
        count <= size,
        ACL_ERROR_RT_PARAM_INVALID,
        "{count} bytes in a target of {size}"
    );
    Ok(address as usize)
}

function!(aclrtMemset(address: *mut c_void, size: usize, value: i32, count: usize) {
    let address = check_fill(address, size, count)?;
    state::current_device()?;
    memory().bytes_mut(address, count)?.fill(value as u8);
    Ok(())
});
function!(aclrtMemsetAsync(address: *mut c_void, size: usize, value: i32, count: usize, stream: aclrtStream) {
    let address = check_fill(address, size, count)?;
    state::stream(stream as usize)?.enqueue(Task::Kernel(Box::new(move |memory| {
        memory.bytes_mut(address, count)?.fill(value as u8);
        Ok(())
    })))
});

function!(aclrtCreateStream(stream: *mut aclrtStream) {
    ensure!(!stream.is_null(), ACL_ERROR_INVALID_PARAM, "the place for the stream is NULL");
    // SAFETY: the caller vouches for the place.
    unsafe { give(stream, state::create_stream()? as aclrtStream) }
});
function!(aclrtCreateStreamWithConfig(stream: *mut aclrtStream, _priority: u32, _flags: u32) {
    ensure!(!stream.is_null(), ACL_ERROR_INVALID_PARAM, "the place for the stream is NULL");
    // SAFETY: the caller vouches for the place.
    unsafe { give(stream, state::create_stream()? as aclrtStream) }
});
function!(aclrtDestroyStream(stream: aclrtStream) { state::destroy_stream(stream as usize, false) });
function!(aclrtDestroyStreamForce(stream: aclrtStream) { state::destroy_stream(stream as usize, true) });
function!(aclrtSynchronizeStream(stream: aclrtStream) {
    state::stream(stream as usize)?.synchronize(None)
});
function!(aclrtSynchronizeStreamWithTimeout(stream: aclrtStream, milliseconds: i32) {
    state::stream(stream as usize)?.synchronize(timeout(milliseconds)?)
});
function!(aclrtStreamQuery(stream: aclrtStream, status: *mut aclrtStreamStatus) {
    let idle = state::stream(stream as usize)?.is_idle();
    // SAFETY: the caller vouches for the place.
    unsafe { give(status, if idle { ACL_STREAM_STATUS_COMPLETE } else { ACL_STREAM_STATUS_NOT_READY }) }
});

fn new_event(place: *mut aclrtEvent) -> Outcome<()> {
    ensure!(
        !place.is_null(),
        ACL_ERROR_INVALID_PARAM,
        "the place for the event is NULL"
    );
    // SAFETY: checked above, and the caller vouches for the place.
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
function!(aclrtStreamWaitEvent(stream: aclrtStream, event: aclrtEvent) {
    let (event, stream) = (state::event(event as usize)?, state::stream(stream as usize)?);
    let turn = event.turn();
    stream.enqueue(Task::Wait(event, turn))
});
function!(aclrtQueryEventStatus(event: aclrtEvent, status: *mut aclrtEventRecordedStatus) {
    let complete = state::event(event as usize)?.is_complete();
    let found = if complete { ACL_EVENT_RECORDED_STATUS_COMPLETE } else { ACL_EVENT_RECORDED_STATUS_NOT_READY };
    // SAFETY: the caller vouches for the place.
    unsafe { give(status, found) }
});
function!(aclrtSynchronizeEvent(event: aclrtEvent) {
    let event = state::event(event as usize)?;
    ensure!(event.is_recorded(), ACL_ERROR_RT_PARAM_INVALID, "the event was never recorded: this would wait for ever");
    event.wait(event.turn(), None);
    Ok(())
});
function!(aclrtEventElapsedTime(milliseconds: *mut f32, start: aclrtEvent, end: aclrtEvent) {
    let times = (state::event(start as usize)?.completed_at(), state::event(end as usize)?.completed_at());
    let (Some(start), Some(end)) = times else {
        fail!(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "an event was not recorded, or its stream has not come to it")
    };
    let Some(elapsed) = end.checked_duration_since(start) else {
        fail!(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "the end came before the start")
    };
    // SAFETY: the caller vouches for the place.
    unsafe { give(milliseconds, elapsed.as_secs_f32() * 1000.0) }
});
