//! Devices, memory, streams and events.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cann_sys::errors::*;
use cann_sys::runtime::*;

use crate::abi::{exports, lifecycle};
use crate::error::{Failure, Outcome, ensure, fail, last_code, take_text};
use crate::memory::{Memory, memory};
use crate::state::Scope;
use crate::stream::{Settings, Task};
use crate::{callback, report, state, tensor};

/// Writes to a place that the caller gave.
///
/// # Safety
///
/// `place` is NULL or valid for a write.
pub(super) unsafe fn give<T>(place: *mut T, value: T) -> Outcome<()> {
    ensure!(
        !place.is_null(),
        ACL_ERROR_INVALID_PARAM,
        "the place for the result is NULL"
    );
    // SAFETY: the caller vouches for it.
    unsafe { place.write(value) };
    Ok(())
}

/// Exports a function of the runtime and checks its prototype.
macro_rules! function {
    ($name:ident($($argument:ident: $type:ty),*) $body:block) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> cann_sys::types::aclError {
            let work = || -> $crate::error::Outcome<()> { $body };
            $crate::error::status(stringify!($name), work())
        }
        $crate::abi::exports!(runtime: $name);
    };
}
pub(super) use function;

function!(aclInit(config_path: *const c_char) {
    if !config_path.is_null() {
        // SAFETY: the caller gives a C string.
        let path = unsafe { CStr::from_ptr(config_path) }.to_string_lossy().into_owned();
        ensure!(std::path::Path::new(&path).is_file(), ACL_ERROR_INVALID_FILE, "there is no file {path}");
    }
    state::initialise()?;
    lifecycle::begin()
});

fn finalise() -> Outcome<()> {
    if state::config().is_ok() {
        lifecycle::end()?;
    }
    callback::forget_all();
    report::keep(state::finalise()?);
    Ok(())
}

function!(aclFinalize() { finalise() });
function!(aclFinalizeReference(references: *mut u64) {
    let left = state::release()?;
    if !references.is_null() {
        // SAFETY: checked, and the caller vouches for the place.
        unsafe { give(references, left) }?;
    }
    if left == 0 { finalise() } else { Ok(()) }
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

function!(aclsysGetVersionNum(package: *mut c_char, version: *mut i32) {
    ensure!(!package.is_null(), ACL_ERROR_INVALID_PARAM, "the name of the package is NULL");
    let text = crate::config::current().map_err(|text| Failure::new(ACL_ERROR_INVALID_PARAM, text))?.version;
    // As the macros of CANN's headers weigh the parts of a version: 8.5.0 is 80500000.
    let weights = [10_000_000, 100_000, 1000];
    let parts = version_parts(&text);
    let numbers = parts.iter().map(|part| part.parse().unwrap_or(0));
    // SAFETY: the caller vouches for the place.
    unsafe { give(version, numbers.zip(weights).map(|(part, weight): (i32, i32)| part * weight).sum()) }
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

/// Two devices that there are.
fn check_peers(device: i32, peer: i32) -> Outcome<()> {
    let devices = 0..state::config()?.devices as i32;
    ensure!(
        devices.contains(&device) && devices.contains(&peer) && device != peer,
        ACL_ERROR_RT_INVALID_DEVICEID,
        "devices {device} and {peer}: two different ones of {} are needed",
        devices.end
    );
    Ok(())
}

function!(aclrtDeviceCanAccessPeer(can: *mut i32, device: i32, peer: i32) {
    check_peers(device, peer)?;
    // SAFETY: the caller vouches for the place.
    unsafe { give(can, 1) }
});

// Copies between devices work in either case: the emulator does not ask for what it cannot refuse.
function!(aclrtDeviceEnablePeerAccess(peer: i32, flags: u32) {
    ensure!(flags == 0, ACL_ERROR_INVALID_PARAM, "flags are reserved and must be 0");
    check_peers(state::current_device()?, peer)
});
function!(aclrtDeviceDisablePeerAccess(peer: i32) { check_peers(state::current_device()?, peer) });
function!(aclrtSetTsDevice(id: aclrtTsId) {
    state::current_device()?;
    ensure!(id.0 < ACL_TS_ID_RESERVED.0, ACL_ERROR_INVALID_PARAM, "there is no task scheduler {}", id.0);
    Ok(())
});

/// A time to wait for. Zero only looks, which CANN 9 documents.
pub(super) fn timeout(milliseconds: i32) -> Outcome<Option<Duration>> {
    match milliseconds {
        -1 => Ok(None),
        0 if state::config()?.major() >= 9 => Ok(Some(Duration::ZERO)),
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
function!(aclrtCtxGetCurrentDefaultStream(stream: *mut aclrtStream) {
    // SAFETY: the caller vouches for the place.
    unsafe { give(stream, state::default_stream()? as aclrtStream) }
});
function!(aclrtGetCurrentContext(context: *mut aclrtContext) {
    // SAFETY: the caller vouches for the place.
    unsafe { give(context, state::current_context()? as aclrtContext) }
});

fn check_option(option: aclSysParamOpt) -> Outcome<u32> {
    ensure!(
        option.0 <= ACL_OPT_ENABLE_DEBUG_KERNEL.0,
        ACL_ERROR_INVALID_PARAM,
        "no such option"
    );
    Ok(option.0)
}

function!(aclrtCtxGetSysParamOpt(option: aclSysParamOpt, value: *mut i64) {
    // SAFETY: the caller vouches for the place.
    unsafe { give(value, state::option(Scope::Context, check_option(option)?)?) }
});
function!(aclrtCtxSetSysParamOpt(option: aclSysParamOpt, value: i64) {
    state::set_option(Scope::Context, check_option(option)?, value)
});
function!(aclrtGetSysParamOpt(option: aclSysParamOpt, value: *mut i64) {
    // SAFETY: the caller vouches for the place.
    unsafe { give(value, state::option(Scope::Process, check_option(option)?)?) }
});
function!(aclrtSetSysParamOpt(option: aclSysParamOpt, value: i64) {
    state::set_option(Scope::Process, check_option(option)?, value)
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

/// The attributes of an allocation; none of no configuration.
///
/// # Safety
///
/// `config` is NULL or valid, with an array of as many attributes as it says.
unsafe fn attributes<'a>(config: *mut aclrtMallocConfig) -> Outcome<&'a [aclrtMallocAttribute]> {
    // SAFETY: the caller vouches for it.
    let Some(config) = (unsafe { config.as_ref() }) else {
        return Ok(&[]);
    };
    if config.numAttrs == 0 {
        return Ok(&[]);
    }
    ensure!(
        !config.attrs.is_null(),
        ACL_ERROR_INVALID_PARAM,
        "{} attributes at NULL",
        config.numAttrs
    );
    // SAFETY: as above.
    Ok(unsafe { std::slice::from_raw_parts(config.attrs, config.numAttrs) })
}

/// Which module the memory is for is no matter here; memory of a device is that of the thread's.
fn check_config(attributes: &[aclrtMallocAttribute], on_device: bool) -> Outcome<()> {
    for attribute in attributes {
        match attribute.attr {
            ACL_RT_MEM_ATTR_RSV | ACL_RT_MEM_ATTR_MODULE_ID => {}
            ACL_RT_MEM_ATTR_DEVICE_ID => {
                // SAFETY: every field of the union is plain numbers, and the attribute says which it is.
                let device = unsafe { attribute.value.deviceId };
                ensure!(
                    !on_device || i64::from(device) == i64::from(state::current_device()?),
                    ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                    "memory of device {device} from a thread of another device is not emulated"
                );
            }
            other => fail!(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "the attribute {} of an allocation is not emulated",
                other.0
            ),
        }
    }
    Ok(())
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
function!(aclrtMallocWithCfg(
    address: *mut *mut c_void, size: usize, _policy: aclrtMemMallocPolicy, config: *mut aclrtMallocConfig
) {
    // SAFETY: the caller vouches for the configuration.
    check_config(unsafe { attributes(config) }?, true)?;
    allocate(address, size)
});
function!(aclrtFree(address: *mut c_void) { state::free(address as usize) });
function!(aclrtFreeWithDevSync(address: *mut c_void) {
    synchronize_device(None)?;
    state::free(address as usize)
});
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
// Of device memory there is but one kind here.
function!(aclrtCheckMemType(
    addresses: *mut *mut c_void, size: u32, what: u32, matches: *mut u32, reserved: u32
) {
    state::config()?;
    let known = ACL_RT_MEM_TYPE_DEV | ACL_RT_MEM_TYPE_DVPP | ACL_RT_MEM_TYPE_RSVD;
    ensure!(!addresses.is_null() && size > 0, ACL_ERROR_RT_PARAM_INVALID, "there are no addresses");
    ensure!(
        what != 0 && what & !known == 0,
        ACL_ERROR_RT_PARAM_INVALID,
        "there is no kind of memory {what:#x}"
    );
    ensure!(reserved == 0, ACL_ERROR_RT_PARAM_INVALID, "the reserved argument must be 0");
    // SAFETY: checked above, and the caller vouches for the list.
    let addresses = unsafe { std::slice::from_raw_parts(addresses, size as usize) };
    let memory = memory();
    let all = addresses.iter().all(|&address| memory.device_of(address as usize).is_some());
    // SAFETY: the caller vouches for the place.
    unsafe { give(matches, u32::from(all && what & ACL_RT_MEM_TYPE_DEV != 0)) }
});
function!(aclrtMallocHost(address: *mut *mut c_void, size: usize) {
    ensure!(!address.is_null(), ACL_ERROR_INVALID_PARAM, "the place for the address is NULL");
    // SAFETY: the caller vouches for the place.
    unsafe { give(address, state::pin(size)? as *mut c_void) }
});
function!(aclrtMallocHostWithCfg(address: *mut *mut c_void, size: u64, config: *mut aclrtMallocConfig) {
    ensure!(!address.is_null(), ACL_ERROR_INVALID_PARAM, "the place for the address is NULL");
    // SAFETY: the caller vouches for the configuration.
    check_config(unsafe { attributes(config) }?, false)?;
    // SAFETY: the caller vouches for the place.
    unsafe { give(address, state::pin(size as usize)? as *mut c_void) }
});
function!(aclrtFreeHost(address: *mut c_void) { state::unpin(address as usize) });
function!(aclrtFreeHostWithDevSync(address: *mut c_void) {
    synchronize_device(None)?;
    state::unpin(address as usize)
});

function!(aclrtHostRegister(
    address: *mut c_void, size: u64, kind: aclrtHostRegisterType, device_address: *mut *mut c_void
) {
    ensure!(!device_address.is_null(), ACL_ERROR_INVALID_PARAM, "the place for the address is NULL");
    ensure!(kind == ACL_HOST_REGISTER_MAPPED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the kind {} is not emulated", kind.0);
    let mapped = state::register(address as usize, size as usize, true)?;
    // SAFETY: the caller vouches for the place.
    unsafe { give(device_address, mapped.unwrap_or(0) as *mut c_void) }
});
function!(aclrtHostRegisterV2(address: *mut c_void, size: u64, flags: u32) {
    let known = ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED;
    ensure!(
        flags != 0 && flags & !known == 0,
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "the flags {flags:#x} are not ACL_HOST_REG_MAPPED and ACL_HOST_REG_PINNED"
    );
    state::register(address as usize, size as usize, flags & ACL_HOST_REG_MAPPED != 0).map(drop)
});
function!(aclrtHostGetDevicePointer(address: *mut c_void, device_address: *mut *mut c_void, flags: u32) {
    ensure!(flags == 0, ACL_ERROR_INVALID_PARAM, "flags are reserved and must be 0");
    // SAFETY: the caller vouches for the place.
    unsafe { give(device_address, state::mapped(address as usize)? as *mut c_void) }
});
function!(aclrtHostUnregister(address: *mut c_void) { state::unregister(address as usize) });

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

/// Fills now.
///
/// # Safety
///
/// An address on the host is valid for the bytes.
unsafe fn fill_memory(memory: &mut Memory, address: usize, value: u8, count: usize) -> Outcome<()> {
    if memory.is_device(address) {
        memory.bytes_mut(address, count)?.fill(value);
    } else {
        // SAFETY: the caller vouches for it.
        unsafe { std::ptr::write_bytes(address as *mut u8, value, count) };
    }
    Ok(())
}

function!(aclrtMemset(address: *mut c_void, size: usize, value: i32, count: usize) {
    let address = check_fill(address, size, count)?;
    state::current_device()?;
    // SAFETY: the caller vouches for its memory on the host.
    unsafe { fill_memory(&mut memory(), address, value as u8, count) }
});
function!(aclrtMemsetAsync(address: *mut c_void, size: usize, value: i32, count: usize, stream: aclrtStream) {
    let address = check_fill(address, size, count)?;
    let stream = state::stream(stream as usize)?;
    if !memory().is_device(address) {
        // Documented as synchronous.
        stream.synchronize(None)?;
    } else {
        return stream.enqueue(Task::Kernel(Box::new(move |memory| {
            memory.bytes_mut(address, count)?.fill(value as u8);
            Ok(())
        })));
    }
    // SAFETY: the caller vouches for its memory on the host.
    unsafe { fill_memory(&mut memory(), address, value as u8, count) }
});

pub(super) fn new_stream(place: *mut aclrtStream, settings: Settings) -> Outcome<()> {
    ensure!(
        !place.is_null(),
        ACL_ERROR_INVALID_PARAM,
        "the place for the stream is NULL"
    );
    ensure!(
        settings.priority <= 7,
        ACL_ERROR_RT_PARAM_INVALID,
        "a priority of {}; there are 0, the highest, to 7",
        settings.priority
    );
    // SAFETY: checked above, and the caller vouches for the place.
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
// A stream with failed work is not complete and never will be: the query is the failure.
function!(aclrtStreamQuery(stream: aclrtStream, status: *mut aclrtStreamStatus) {
    let idle = state::stream(stream as usize)?.is_idle()?;
    // SAFETY: the caller vouches for the place.
    unsafe { give(status, if idle { ACL_STREAM_STATUS_COMPLETE } else { ACL_STREAM_STATUS_NOT_READY }) }
});
function!(aclrtStreamGetId(stream: aclrtStream, id: *mut i32) {
    // SAFETY: the caller vouches for the place.
    unsafe { give(id, state::stream(stream as usize)?.id) }
});
function!(aclrtStreamGetPriority(stream: aclrtStream, priority: *mut u32) {
    // SAFETY: the caller vouches for the place.
    unsafe { give(priority, state::stream(stream as usize)?.settings.priority) }
});
function!(aclrtStreamGetFlags(stream: aclrtStream, flags: *mut u32) {
    // SAFETY: the caller vouches for the place.
    unsafe { give(flags, state::stream(stream as usize)?.settings.flags) }
});
function!(aclrtSetStreamFailureMode(stream: aclrtStream, mode: u64) {
    state::stream(stream as usize)?;
    match u32::try_from(mode) {
        Ok(ACL_CONTINUE_ON_FAILURE) => Ok(()),
        Ok(ACL_STOP_ON_FAILURE) => {
            // On these processors it is the mode of all streams of the context.
            state::streams_of_context()?.iter().for_each(|stream| stream.stop_on_failure());
            Ok(())
        }
        _ => fail!(ACL_ERROR_RT_PARAM_INVALID, "there is no failure mode {mode}"),
    }
});

/// How many streams and events the emulator says a device has; it has no limit of its own.
const STREAMS: usize = 1984;
const EVENTS: usize = 65_535;

function!(aclrtGetStreamAvailableNum(count: *mut u32) {
    // SAFETY: the caller vouches for the place.
    unsafe { give(count, STREAMS.saturating_sub(state::counts()?.0) as u32) }
});
function!(aclrtGetEventAvailNum(count: *mut u32) {
    // SAFETY: the caller vouches for the place.
    unsafe { give(count, EVENTS.saturating_sub(state::counts()?.1) as u32) }
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

fn wait_for(stream: aclrtStream, event: aclrtEvent, limit: Option<Duration>) -> Outcome<()> {
    let (event, stream) = (
        state::event(event as usize)?,
        state::stream(stream as usize)?,
    );
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
    // SAFETY: the caller vouches for the place.
    unsafe { give(status, found) }
});
function!(aclrtQueryEventStatus(event: aclrtEvent, status: *mut aclrtEventRecordedStatus) {
    let complete = state::event(event as usize)?.is_complete();
    let found = if complete { ACL_EVENT_RECORDED_STATUS_COMPLETE } else { ACL_EVENT_RECORDED_STATUS_NOT_READY };
    // SAFETY: the caller vouches for the place.
    unsafe { give(status, found) }
});
function!(aclrtQueryEventWaitStatus(event: aclrtEvent, status: *mut aclrtEventWaitStatus) {
    let passed = state::event(event as usize)?.is_passed();
    let found = if passed { ACL_EVENT_WAIT_STATUS_COMPLETE } else { ACL_EVENT_WAIT_STATUS_NOT_READY };
    // SAFETY: the caller vouches for the place.
    unsafe { give(status, found) }
});

/// Waits for an event; the error of the stream that came to it.
fn synchronize_event(event: aclrtEvent, limit: Option<Duration>) -> Outcome<()> {
    let event = state::event(event as usize)?;
    ensure!(
        event.is_recorded(),
        ACL_ERROR_RT_PARAM_INVALID,
        "the event was never recorded: this would wait for ever"
    );
    ensure!(
        event.wait(event.turn(), limit),
        ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
        "the event's stream did not come to it in time"
    );
    event.failure().map_or(Ok(()), Err)
}

function!(aclrtSynchronizeEvent(event: aclrtEvent) { synchronize_event(event, None) });
function!(aclrtSynchronizeEventWithTimeout(event: aclrtEvent, milliseconds: i32) {
    synchronize_event(event, timeout(milliseconds)?)
});
function!(aclrtEventGetTimestamp(event: aclrtEvent, microseconds: *mut u64) {
    let Some(at) = state::event(event as usize)?.completed_at() else {
        fail!(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the event was not recorded, or its stream has not come to it")
    };
    // SAFETY: the caller vouches for the place.
    unsafe { give(microseconds, crate::event::timestamp(at)) }
});
function!(aclrtGetEventId(event: aclrtEvent, id: *mut u32) {
    // SAFETY: the caller vouches for the place.
    unsafe { give(id, state::event(event as usize)?.id) }
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
