//! Fills with numbers of four bytes.

use std::ffi::c_void;

use cann_sys::errors::*;

use super::runtime::function;
use crate::error::{Outcome, ensure};
use crate::memory::{Memory, memory};
use crate::state;
use crate::stream::Task;

fn check(address: *mut c_void, size: usize, elements: usize) -> Outcome<usize> {
    ensure!(!address.is_null(), ACL_ERROR_INVALID_PARAM; "the address is NULL");
    ensure!(
        (address as usize).is_multiple_of(4) && elements > 0 && elements <= size / 4,
        ACL_ERROR_RT_PARAM_INVALID;
        "{elements} elements in a target of {size} bytes at {address:?}"
    );
    Ok(address as usize)
}

/// Fills now.
///
/// # Safety
///
/// An address on the host must be valid for the elements.
unsafe fn fill(memory: &mut Memory, address: usize, value: u32, elements: usize) -> Outcome<()> {
    let count = 4 * elements;
    let bytes = if memory.is_device(address) {
        memory.bytes_mut(address, count)?
    } else {
        // SAFETY: the caller guarantees it.
        unsafe { std::slice::from_raw_parts_mut(address as *mut u8, count) }
    };
    for element in bytes.chunks_exact_mut(4) {
        element.copy_from_slice(&value.to_ne_bytes());
    }
    Ok(())
}

function!(aclrtMemsetD32(address: *mut c_void, size: usize, value: u32, elements: usize) {
    let address = check(address, size, elements)?;
    state::current_device()?;
    // SAFETY: the caller guarantees its memory on the host.
    unsafe { fill(&mut memory(), address, value, elements) }
});
function!(aclrtMemsetD32Async(
    address: *mut c_void, size: usize, value: u32, elements: usize, stream: aclrtStream
) {
    let address = check(address, size, elements)?;
    let stream = state::stream(stream as usize)?;
    if memory().is_device(address) {
        return stream.enqueue(Task::Kernel(Box::new(move |memory| {
            // SAFETY: the address is not on the host.
            unsafe { fill(memory, address, value, elements) }
        })));
    }
    stream.synchronize(None)?;
    // SAFETY: the caller guarantees its memory on the host.
    unsafe { fill(&mut memory(), address, value, elements) }
});
