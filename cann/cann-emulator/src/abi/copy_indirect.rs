//! Copies on one device between addresses that are stored there.

use std::ffi::c_void;

use cann_sys::errors::*;
use cann_sys::runtime::*;

use super::runtime::{function, give};
use crate::error::{Outcome, ensure};
use crate::memory::{Memory, memory};
use crate::state;
use crate::stream::Task;

/// The size of a record on the device: source, target and length of a copy. CANN's own layout is not public.
const RECORD: usize = 3 * size_of::<u64>();

fn check_kind(kind: aclrtMemcpyKind) -> Outcome<()> {
    ensure!(kind == ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
        "a copy of kind {} that finds its addresses on the device", kind.0);
    Ok(())
}

/// Returns the number at an address of the device.
fn number(memory: &Memory, address: usize) -> Outcome<usize> {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(memory.bytes(address, 8)?);
    Ok(u64::from_ne_bytes(bytes) as usize)
}

fn copy(memory: &mut Memory, from: usize, to: usize, count: usize) -> Outcome<()> {
    let bytes = memory.bytes(from, count)?.to_vec();
    memory.bytes_mut(to, count)?.copy_from_slice(&bytes);
    Ok(())
}

function!(aclrtGetMemcpyDescSize(kind: aclrtMemcpyKind, size: *mut usize) {
    check_kind(kind)?;
    // SAFETY: the caller guarantees the place.
    unsafe { give(size, RECORD) }
});
function!(aclrtSetMemcpyDesc(
    record: *mut c_void, kind: aclrtMemcpyKind, from: *mut c_void, to: *mut c_void, count: usize,
    reserved: *mut c_void
) {
    check_kind(kind)?;
    ensure!(!record.is_null() && !from.is_null() && !to.is_null(), ACL_ERROR_INVALID_PARAM;
        "an address is NULL");
    ensure!(reserved.is_null() && count > 0, ACL_ERROR_RT_PARAM_INVALID; "{count} bytes, or a configuration");
    state::current_device()?;
    let numbers = [from as u64, to as u64, count as u64];
    let bytes = numbers.map(u64::to_ne_bytes);
    memory().bytes_mut(record as usize, RECORD)?.copy_from_slice(bytes.as_flattened());
    Ok(())
});
function!(aclrtMemcpyAsyncWithDesc(record: *mut c_void, kind: aclrtMemcpyKind, stream: aclrtStream) {
    check_kind(kind)?;
    let record = record as usize;
    ensure!(memory().is_device(record), ACL_ERROR_RT_PARAM_INVALID; "the record is not on a device");
    state::stream(stream as usize)?.enqueue(Task::Kernel(Box::new(move |memory| {
        let [from, to, count] = [record, record + 8, record + 16].map(|place| number(memory, place));
        copy(memory, from?, to?, count?)
    })))
});
function!(aclrtMemcpyAsyncWithOffset(
    to: *mut *mut c_void, to_size: usize, to_offset: usize, from: *mut *const c_void, count: usize,
    from_offset: usize, kind: aclrtMemcpyKind, stream: aclrtStream
) {
    check_kind(kind)?;
    let (to, from) = (to as usize, from as usize);
    let there = memory();
    ensure!(there.is_device(to) && there.is_device(from), ACL_ERROR_RT_PARAM_INVALID;
        "the addresses of the addresses {to:#x} (to) and {from:#x} (from) are not on a device");
    drop(there);
    ensure!(
        count > 0 && to_offset.checked_add(count).is_some_and(|end| end <= to_size),
        ACL_ERROR_RT_PARAM_INVALID;
        "{count} bytes at {to_offset} of a target of {to_size}"
    );
    state::stream(stream as usize)?.enqueue(Task::Kernel(Box::new(move |memory| {
        let (to, from) = (number(memory, to)?, number(memory, from)?);
        copy(memory, from.wrapping_add(from_offset), to.wrapping_add(to_offset), count)
    })))
});
