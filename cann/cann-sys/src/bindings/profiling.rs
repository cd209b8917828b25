// Made from include/cann/profiling.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

pub use super::types::*;

#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct MsprofApi {
    _unused: [u8; 0],
}
pub type ProfCommandHandle = ::std::option::Option<
    unsafe extern "C" fn(
        type_: u32,
        data: *mut ::std::os::raw::c_void,
        length: u32,
    ) -> i32,
>;
pub type MsprofRegisterCallback = unsafe extern "C" fn(
    module: u32,
    callback: ProfCommandHandle,
) -> i32;
pub type MsprofReportApi = unsafe extern "C" fn(
    ageing: u32,
    report: *const MsprofApi,
) -> i32;
pub type MsprofReportCompactInfo = unsafe extern "C" fn(
    ageing: u32,
    data: *const ::std::os::raw::c_void,
    length: u32,
) -> i32;
pub type MsprofReportAdditionalInfo = unsafe extern "C" fn(
    ageing: u32,
    data: *const ::std::os::raw::c_void,
    length: u32,
) -> i32;
pub type MsprofGetHashId = unsafe extern "C" fn(
    text: *const ::std::os::raw::c_char,
    length: usize,
) -> u64;
pub type MsprofSysCycleTime = unsafe extern "C" fn() -> u64;
