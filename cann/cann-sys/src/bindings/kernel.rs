// Made from include/cann/kernel.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

pub use super::types::*;

pub type rtError_t = i32;
pub type rtStream_t = *mut ::std::os::raw::c_void;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tagRtSmCtrl {
    _unused: [u8; 0],
}
pub type rtSmDesc_t = tagRtSmCtrl;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct tagRtDevBinary {
    pub magic: u32,
    pub version: u32,
    pub data: *const ::std::os::raw::c_void,
    pub length: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of tagRtDevBinary"][::std::mem::size_of::<tagRtDevBinary>() - 24usize];
    ["Alignment of tagRtDevBinary"][::std::mem::align_of::<tagRtDevBinary>() - 8usize];
    [
        "Offset of field: tagRtDevBinary::magic",
    ][::std::mem::offset_of!(tagRtDevBinary, magic) - 0usize];
    [
        "Offset of field: tagRtDevBinary::version",
    ][::std::mem::offset_of!(tagRtDevBinary, version) - 4usize];
    [
        "Offset of field: tagRtDevBinary::data",
    ][::std::mem::offset_of!(tagRtDevBinary, data) - 8usize];
    [
        "Offset of field: tagRtDevBinary::length",
    ][::std::mem::offset_of!(tagRtDevBinary, length) - 16usize];
};
pub type rtDevBinary_t = tagRtDevBinary;
pub type aclrtBinHandle = *mut ::std::os::raw::c_void;
pub type aclrtFuncHandle = *mut ::std::os::raw::c_void;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aclrtBinaryLoadOptions {
    _unused: [u8; 0],
}
pub type rtDevBinaryRegister = unsafe extern "C" fn(
    binary: *const rtDevBinary_t,
    handle: *mut *mut ::std::os::raw::c_void,
) -> rtError_t;
pub type rtFunctionRegister = unsafe extern "C" fn(
    handle: *mut ::std::os::raw::c_void,
    stub: *const ::std::os::raw::c_void,
    name: *const ::std::os::raw::c_char,
    description: *const ::std::os::raw::c_void,
    mode: u32,
) -> rtError_t;
pub type rtKernelLaunch = unsafe extern "C" fn(
    stub: *const ::std::os::raw::c_void,
    blocks: u32,
    arguments: *mut ::std::os::raw::c_void,
    size: u32,
    shared: *mut rtSmDesc_t,
    stream: rtStream_t,
) -> rtError_t;
pub type rtGetC2cCtrlAddr = unsafe extern "C" fn(
    address: *mut u64,
    length: *mut u32,
) -> rtError_t;
pub type aclrtBinaryLoadFromData = unsafe extern "C" fn(
    data: *const ::std::os::raw::c_void,
    length: usize,
    options: *const aclrtBinaryLoadOptions,
    binary: *mut aclrtBinHandle,
) -> aclError;
pub type aclrtBinaryGetFunction = unsafe extern "C" fn(
    binary: aclrtBinHandle,
    name: *const ::std::os::raw::c_char,
    function: *mut aclrtFuncHandle,
) -> aclError;
pub type aclrtGetFunctionAddr = unsafe extern "C" fn(
    function: aclrtFuncHandle,
    matrix: *mut *mut ::std::os::raw::c_void,
    vector: *mut *mut ::std::os::raw::c_void,
) -> aclError;
