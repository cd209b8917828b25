//! Copies between host and devices, of bytes and of matrices.

use std::ffi::c_void;

use cann_sys::errors::*;
use cann_sys::runtime::*;

use super::runtime::function;
use crate::error::{Outcome, ensure, fail};
use crate::memory::{Memory, memory};
use crate::state;
use crate::stream::Task;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Host,
    Device,
}

/// Rows of bytes at equal distances in both places. One row is a plain copy.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    to: usize,
    to_pitch: usize,
    from: usize,
    from_pitch: usize,
    width: usize,
    height: usize,
}

impl Rows {
    pub(super) fn one(to: usize, from: usize, width: usize) -> Self {
        Self {
            to,
            to_pitch: width,
            from,
            from_pitch: width,
            width,
            height: 1,
        }
    }

    /// Returns the target and source of each row.
    fn pairs(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.height).map(move |row| {
            (
                self.to + row * self.to_pitch,
                self.from + row * self.from_pitch,
            )
        })
    }

    /// Returns the number of bytes from the first to the last at a pitch. The caller has checked that it does not
    /// overflow.
    fn extent(self, pitch: usize) -> usize {
        (self.height - 1) * pitch + self.width
    }
}

pub(super) fn side(memory: &Memory, address: usize) -> Side {
    if memory.is_device(address) {
        Side::Device
    } else {
        Side::Host
    }
}

/// Returns the sides of source and target, checked against the kind that the caller states. CANN 9 ignores that kind.
fn sides(to: usize, from: usize, kind: aclrtMemcpyKind) -> Outcome<(Side, Side)> {
    let config = state::config()?;
    let memory = memory();
    let actual = (side(&memory, to), side(&memory, from));
    let said = match kind {
        _ if config.major() >= 9 => actual,
        ACL_MEMCPY_HOST_TO_HOST => (Side::Host, Side::Host),
        ACL_MEMCPY_HOST_TO_DEVICE => (Side::Device, Side::Host),
        ACL_MEMCPY_DEVICE_TO_HOST => (Side::Host, Side::Device),
        ACL_MEMCPY_DEVICE_TO_DEVICE => (Side::Device, Side::Device),
        ACL_MEMCPY_DEFAULT => actual,
        _ => fail!(ACL_ERROR_RT_FEATURE_NOT_SUPPORT; "a copy of kind {}", kind.0),
    };
    ensure!(said == actual, ACL_ERROR_RT_INVALID_MEMORY_TYPE;
        "the kind of the copy says another side than the addresses {to:#x} (to) and {from:#x} \
         (from)");
    Ok(said)
}

pub(super) fn check_copy(to: usize, to_size: usize, from: usize, count: usize) -> Outcome<()> {
    ensure!(to != 0 && from != 0, ACL_ERROR_INVALID_PARAM; "an address is NULL");
    ensure!(count > 0, ACL_ERROR_INVALID_PARAM; "a copy of 0 bytes");
    ensure!(count <= to_size, ACL_ERROR_RT_PARAM_INVALID;
        "{count} bytes into a target of {to_size}");
    Ok(())
}

/// The documented maximum of a copy's rows.
const MOST_ROWS: usize = 5 * 1024 * 1024;

fn check_matrix(rows: Rows) -> Outcome<()> {
    ensure!(rows.to != 0 && rows.from != 0, ACL_ERROR_INVALID_PARAM; "an address is NULL");
    ensure!(rows.width > 0 && (1..=MOST_ROWS).contains(&rows.height), ACL_ERROR_RT_PARAM_INVALID;
        "a copy of {} rows of {} bytes; there must be some, and at most {MOST_ROWS} rows",
        rows.height, rows.width);
    ensure!(
        rows.width <= rows.to_pitch && rows.width <= rows.from_pitch, ACL_ERROR_RT_PARAM_INVALID;
        "rows of {} bytes at distances of {} (to) and {} (from)",
        rows.width, rows.to_pitch, rows.from_pitch
    );
    for (address, pitch) in [(rows.to, rows.to_pitch), (rows.from, rows.from_pitch)] {
        let end = pitch.checked_mul(rows.height);
        ensure!(end.and_then(|end| address.checked_add(end)).is_some(), ACL_ERROR_RT_PARAM_INVALID;
            "{} rows at distances of {pitch} bytes from {address:#x} go past the last address",
            rows.height);
    }
    Ok(())
}

/// Checks that a copy of matrices is between a host and a device.
fn check_between(sides: (Side, Side)) -> Outcome<()> {
    ensure!(sides.0 != sides.1, ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
        "a copy of a matrix is between host and device");
    Ok(())
}

/// Checks that a copy that does not wait for a stream has no reserved address if it is between two devices.
fn check_reserved(memory: &Memory, to: usize, from: usize) -> Outcome<()> {
    let (there, here) = (memory.device_of(to), memory.device_of(from));
    let between = there.is_some() && here.is_some() && there != here;
    ensure!(
        !between || !memory.is_reserved(to) && !memory.is_reserved(from),
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
        "only aclrtMemcpyAsync copies between reserved addresses of two devices"
    );
    Ok(())
}

/// Copies now.
///
/// # Safety
///
/// Addresses on the host must be valid for the rows.
pub(super) unsafe fn copy(memory: &mut Memory, rows: Rows, sides: (Side, Side)) -> Outcome<()> {
    let count = rows.width;
    for (to, from) in rows.pairs() {
        // SAFETY: the caller guarantees memory of the host, and memory of the host can't overlap that of a device.
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
    }
    Ok(())
}

/// Copies on a stream. The copy is asynchronous only from and to pinned host memory. Other memory is never used later:
/// a source is read at once, and a copy to such memory waits for the stream.
///
/// # Safety
///
/// Addresses on the host must be valid for the rows, and pinned ones until the stream has come here.
pub(super) unsafe fn copy_on(stream: aclrtStream, rows: Rows, sides: (Side, Side)) -> Outcome<()> {
    let stream = state::stream(stream as usize)?;
    let host = match sides {
        (Side::Host, Side::Host) => {
            fail!(ACL_ERROR_RT_FEATURE_NOT_SUPPORT; "a copy on a stream from host to host")
        }
        (Side::Host, Side::Device) => Some((rows.to, rows.extent(rows.to_pitch))),
        (Side::Device, Side::Host) => Some((rows.from, rows.extent(rows.from_pitch))),
        (Side::Device, Side::Device) => None,
    };
    let pinned = host.is_none_or(|(host, count)| state::is_pinned(host, count));
    if !pinned && sides.0 == Side::Device {
        let lines = rows.pairs().map(|(to, from)| {
            // SAFETY: the caller guarantees its memory on the host.
            let line = unsafe { std::slice::from_raw_parts(from as *const u8, rows.width) };
            (to, line.to_vec())
        });
        let lines: Vec<_> = lines.collect();
        return stream.enqueue(Task::Kernel(Box::new(move |memory| {
            for (to, line) in &lines {
                memory.bytes_mut(*to, line.len())?.copy_from_slice(line);
            }
            Ok(())
        })));
    }
    if !pinned {
        stream.synchronize(None)?;
        // SAFETY: the caller guarantees its memory on the host.
        return unsafe { copy(&mut memory(), rows, sides) };
    }
    stream.enqueue(Task::Kernel(Box::new(move |memory| {
        if let Some((host, count)) = host {
            ensure!(state::is_pinned(host, count), ACL_ERROR_RT_PARAM_INVALID;
                "the host memory of a copy was freed before the stream came to it");
        }
        // SAFETY: memory of the host is still an allocation of aclrtMallocHost or registered.
        unsafe { copy(memory, rows, sides) }
    })))
}

function!(aclrtMemcpy(to: *mut c_void, to_size: usize, from: *const c_void, count: usize, kind: aclrtMemcpyKind) {
    let (to, from) = (to as usize, from as usize);
    check_copy(to, to_size, from, count)?;
    state::current_device()?;
    let sides = sides(to, from, kind)?;
    check_reserved(&memory(), to, from)?;
    // SAFETY: the caller guarantees its memory on the host.
    unsafe { copy(&mut memory(), Rows::one(to, from, count), sides) }
});
function!(aclrtMemcpyAsync(
    to: *mut c_void, to_size: usize, from: *const c_void, count: usize, kind: aclrtMemcpyKind, stream: aclrtStream
) {
    let (to, from) = (to as usize, from as usize);
    check_copy(to, to_size, from, count)?;
    let sides = sides(to, from, kind)?;
    // SAFETY: the caller guarantees its memory on the host.
    unsafe { copy_on(stream, Rows::one(to, from, count), sides) }
});
// aclrtMemcpyAsync behaves like this here too: it is synchronous unless memory is pinned.
function!(aclrtMemcpyAsyncWithCondition(
    to: *mut c_void, to_size: usize, from: *const c_void, count: usize, kind: aclrtMemcpyKind, stream: aclrtStream
) {
    let (to, from) = (to as usize, from as usize);
    check_copy(to, to_size, from, count)?;
    let sides = sides(to, from, kind)?;
    // SAFETY: the caller guarantees its memory on the host.
    unsafe { copy_on(stream, Rows::one(to, from, count), sides) }
});
function!(aclrtMemcpy2d(
    to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize,
    kind: aclrtMemcpyKind
) {
    let rows = Rows { to: to as usize, to_pitch, from: from as usize, from_pitch, width, height };
    check_matrix(rows)?;
    state::current_device()?;
    let sides = sides(rows.to, rows.from, kind)?;
    check_between(sides)?;
    // SAFETY: the caller guarantees its memory on the host.
    unsafe { copy(&mut memory(), rows, sides) }
});
function!(aclrtMemcpy2dAsync(
    to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize,
    kind: aclrtMemcpyKind, stream: aclrtStream
) {
    let rows = Rows { to: to as usize, to_pitch, from: from as usize, from_pitch, width, height };
    check_matrix(rows)?;
    let sides = sides(rows.to, rows.from, kind)?;
    check_between(sides)?;
    // SAFETY: the caller guarantees its memory on the host.
    unsafe { copy_on(stream, rows, sides) }
});
