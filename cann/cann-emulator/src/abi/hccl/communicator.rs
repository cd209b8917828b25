//! Communicators: making, querying and destroying them.

use std::ffi::{CStr, c_char};
use std::sync::Arc;

use cann_sys::hccl::*;

use super::config::Settings;
use super::{PARA, PTR, communicator, function, give, handle};
use crate::abi::exports;
use crate::error::{Outcome, ensure, fail};
use crate::hccl::{self, Communicator, Root};
use crate::object;
use crate::state;

function!(HcclGetRootInfo(root: *mut HcclRootInfo) {
    state::current_device()?;
    ensure!(!root.is_null(), PTR; "the place for the root is NULL");
    let mut bytes = [0; HCCL_ROOT_INFO_BYTES as usize];
    hccl::make_root()?.write(&mut bytes);
    // SAFETY: checked above, and the caller guarantees the place.
    unsafe { give(root, HcclRootInfo { internal: bytes.map(|byte| byte as c_char) }) }
});

/// Joins a group as one of its ranks.
///
/// # Safety
///
/// `root` must be NULL or valid for a read.
unsafe fn join(ranks: u32, root: *const HcclRootInfo, rank: u32) -> Outcome<Arc<Communicator>> {
    let device = state::current_device()?;
    // SAFETY: the caller guarantees the root.
    let Some(root) = (unsafe { root.as_ref() }) else {
        fail!(PTR; "the root is NULL")
    };
    let root = Root::read(&root.internal.map(|byte| byte as u8))?;
    hccl::join(root, ranks as usize, rank as usize, device)
}

function!(HcclCommInitRootInfo(ranks: u32, root: *const HcclRootInfo, rank: u32, comm: *mut HcclComm) {
    ensure!(!comm.is_null(), PTR; "the place for the communicator is NULL");
    // SAFETY: the caller guarantees the root.
    let joined = unsafe { join(ranks, root, rank) }?;
    // SAFETY: checked above, and the caller guarantees the place.
    unsafe { give(comm, handle(joined)) }
});

function!(HcclCommInitRootInfoConfig(
    ranks: u32, root: *const HcclRootInfo, rank: u32, config: *const HcclCommConfig, comm: *mut HcclComm
) {
    ensure!(!comm.is_null(), PTR; "the place for the communicator is NULL");
    // SAFETY: the caller guarantees the configuration.
    let settings = unsafe { Settings::read(config) }?;
    // SAFETY: the caller guarantees the root.
    let joined = unsafe { join(ranks, root, rank) }?;
    if let Some(name) = settings.name {
        joined.name.get_or_init(|| name);
    }
    // SAFETY: checked above, and the caller guarantees the place.
    unsafe { give(comm, handle(joined)) }
});

function!(HcclCommInitAll(count: u32, devices: *mut i32, comms: *mut HcclComm) {
    let known = state::config()?.devices as i32;
    ensure!(!devices.is_null() && !comms.is_null(), PTR; "devices or communicators are NULL");
    ensure!(count > 0, PARA; "a group of no devices");
    // SAFETY: the caller guarantees the array.
    let devices = unsafe { std::slice::from_raw_parts(devices, count as usize) };
    for (position, device) in devices.iter().enumerate() {
        ensure!((0..known).contains(device), PARA; "device {device} does not exist; there are {known}");
        ensure!(!devices[..position].contains(device), PARA; "device {device} is there twice");
    }
    for (position, joined) in hccl::whole(devices)?.into_iter().enumerate() {
        // SAFETY: the caller guarantees as many places as devices.
        unsafe { comms.add(position).write(handle(joined)) };
    }
    Ok(())
});

function!(HcclCommDestroy(comm: HcclComm) {
    communicator(comm)?;
    object::remove(comm as usize);
    Ok(())
});

function!(HcclGetRankSize(comm: HcclComm, ranks: *mut u32) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(ranks, communicator(comm)?.group.size as u32) }
});

function!(HcclGetRankId(comm: HcclComm, rank: *mut u32) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(rank, communicator(comm)?.rank as u32) }
});

function!(HcclGetCommName(comm: HcclComm, name: *mut c_char) {
    let found = communicator(comm)?;
    let own = || format!("cann_emulator_group_{:016x}", found.group.id);
    let text = format!("{}\0", found.name.get().cloned().unwrap_or_else(own));
    ensure!(!name.is_null(), PTR; "the place for the name is NULL");
    // SAFETY: the caller guarantees a place of the documented 128 bytes.
    unsafe { name.copy_from_nonoverlapping(text.as_ptr().cast(), text.len()) };
    Ok(())
});

function!(HcclGetCommAsyncError(comm: HcclComm, error: *mut HcclResult) {
    let failed = communicator(comm)?.group.has_failed();
    // SAFETY: the caller guarantees the place.
    unsafe { give(error, if failed { HCCL_E_REMOTE } else { HCCL_SUCCESS }) }
});

/// Texts of errors, by code.
const ERRORS: [&CStr; 23] = [
    c"no error",
    c"a parameter is wrong",
    c"a pointer is NULL",
    c"out of memory",
    c"an error inside HCCL",
    c"not supported",
    c"not found",
    c"not available",
    c"a system call failed",
    c"out of time",
    c"a file could not be opened",
    c"no TCP connection",
    c"no RoCE connection",
    c"a TCP transfer failed",
    c"a RoCE transfer failed",
    c"a call of the runtime failed",
    c"a call of the driver failed",
    c"a call of the profiler failed",
    c"a call of CCE failed",
    c"a call of the network failed",
    c"to be tried again",
    c"another rank failed",
    c"suspended",
];

#[unsafe(no_mangle)]
pub unsafe extern "C" fn HcclGetErrorString(code: HcclResult) -> *const c_char {
    ERRORS
        .get(code.0 as usize)
        .unwrap_or(&c"an unknown error")
        .as_ptr()
}

exports!(hccl: HcclGetErrorString);
