//! Records of addresses with sizes, and conversions of halves to floats.

use std::ffi::c_void;

use cann_sys::errors::*;
use cann_sys::runtime::*;

use super::runtime::function;
use crate::abi::exports;
use crate::error::{Outcome, fail};
use crate::object::{self, Object};

/// Returns the address and the size of a record.
pub(super) fn buffer(handle: *const aclDataBuffer) -> Outcome<(usize, usize)> {
    match object::get(handle as usize) {
        Some(Object::Buffer(address, size)) => Ok((address, size)),
        _ => fail!(ACL_ERROR_INVALID_PARAM; "{handle:p} is not a data buffer, or was destroyed"),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclCreateDataBuffer(data: *mut c_void, size: usize) -> *mut aclDataBuffer {
    object::insert(Object::Buffer(data as usize, size)) as *mut aclDataBuffer
}
exports!(runtime: aclCreateDataBuffer);

function!(aclDestroyDataBuffer(handle: *const aclDataBuffer) {
    buffer(handle)?;
    object::remove(handle as usize);
    Ok(())
});
function!(aclUpdateDataBuffer(handle: *mut aclDataBuffer, data: *mut c_void, size: usize) {
    buffer(handle)?;
    object::replace(handle as usize, Object::Buffer(data as usize, size));
    Ok(())
});

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclGetDataBufferAddr(handle: *const aclDataBuffer) -> *mut c_void {
    buffer(handle).map_or(0, |(address, _)| address) as *mut c_void
}
exports!(runtime: aclGetDataBufferAddr);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclGetDataBufferSize(handle: *const aclDataBuffer) -> u32 {
    buffer(handle).map_or(0, |(_, size)| size as u32)
}
exports!(runtime: aclGetDataBufferSize);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclGetDataBufferSizeV2(handle: *const aclDataBuffer) -> usize {
    buffer(handle).map_or(0, |(_, size)| size)
}
exports!(runtime: aclGetDataBufferSizeV2);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclFloatToFloat16(value: f32) -> aclFloat16 {
    half::f16::from_f32(value).to_bits()
}
exports!(runtime: aclFloatToFloat16);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclFloat16ToFloat(value: aclFloat16) -> f32 {
    half::f16::from_bits(value).to_f32()
}
exports!(runtime: aclFloat16ToFloat);
