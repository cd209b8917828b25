//! Tests that sizes beyond every machine are errors, never a panic or an overflow.

use crate::common::*;
use std::ffi::c_void;

use cann_emulator::abi::{copy_bytes::*, runtime::*};
use cann_sys::errors::*;
use cann_sys::runtime::*;

const HUGE: usize = usize::MAX;

#[track_caller]
fn refused(status: i32, code: i32, text: &str) {
    let message = message();
    assert_eq!(status, code, "{message}");
    assert!(message.contains(text), "{message}");
}

#[test]
fn memory_that_nobody_has() {
    let _session = Session::start();
    let mut place: *mut c_void = null_mut();
    for size in [HUGE, HUGE - 8, isize::MAX as usize, 1 << 60] {
        // SAFETY: the place is a variable, nothing is made.
        unsafe {
            let status = aclrtMalloc(&mut place, size, ACL_MEM_MALLOC_HUGE_FIRST);
            refused(status, ACL_ERROR_RT_MEMORY_ALLOCATION, "out of memory");
            let status = aclrtMallocHost(&mut place, size);
            refused(status, ACL_ERROR_RT_MEMORY_ALLOCATION, "the host has no");
        }
    }
    let page = 4096 as *mut c_void;
    // SAFETY: nothing is read there.
    unsafe {
        let status = aclrtHostRegister(page, HUGE as u64, ACL_HOST_REGISTER_MAPPED, &mut place);
        refused(status, ACL_ERROR_RT_PARAM_INVALID, "past the last address");
        let status = aclrtHostRegister(page, 1 << 60, ACL_HOST_REGISTER_MAPPED, &mut place);
        each! { refused: status, ACL_ERROR_RT_MEMORY_ALLOCATION, "more than device 0 has" }
    }
}

#[test]
fn copies_beyond_all_addresses() {
    let _session = Session::start();
    let (device, mut host) = (malloc(64), [0u8; 64]);
    let host: *mut c_void = host.as_mut_ptr().cast();
    let copy = |pitch, width, height| {
        let kind = ACL_MEMCPY_HOST_TO_DEVICE;
        // SAFETY: all reads are inside the array, or the call is refused.
        unsafe { aclrtMemcpy2d(device, pitch, host, 8, width, height, kind) }
    };
    assert_eq!(copy(8, 8, 8), 0);
    for pitch in [HUGE, HUGE / 2] {
        each! { refused: copy(pitch, 8, 3), ACL_ERROR_RT_PARAM_INVALID, "past the last address" }
    }
    // SAFETY: made above.
    unsafe { aclrtFree(device) };
}

#[test]
fn tensors_that_reach_beyond_all_addresses() {
    let _session = Session::start();
    let create = |shape: &[i64], strides: &[i64], offset| {
        let (strides, storage) = (strides.as_ptr(), null());
        // SAFETY: there are as many lengths and strides as the rank says.
        unsafe {
            aclCreateTensor(
                shape.as_ptr(),
                shape.len() as u64,
                ACL_FLOAT,
                strides,
                offset,
                ACL_FORMAT_ND,
                storage,
                0,
                null_mut(),
            )
        }
    };
    for (shape, strides, offset) in [
        ([i64::MAX, i64::MAX], [1, 1], 0),
        ([2, 2], [i64::MAX, i64::MAX], 0),
        ([2, 2], [i64::MIN, 1], 0),
        ([2, 2], [2, 1], i64::MAX),
        ([0, i64::MAX], [1, 1], 0),
    ] {
        assert!(create(&shape, &strides, offset).is_null(), "{shape:?}");
        assert!(message().contains("can be addressed"));
    }
}
