// Made from include/cann/compile.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

pub use super::types::*;
pub use super::runtime::*;

#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aclTensorDesc {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct aclopAttr {
    _unused: [u8; 0],
}
pub const ACL_MEMTYPE_DEVICE: aclMemType = aclMemType(0);
pub const ACL_MEMTYPE_HOST: aclMemType = aclMemType(1);
pub const ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT: aclMemType = aclMemType(2);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclMemType(pub ::std::os::raw::c_uint);
pub const ACL_ENGINE_SYS: aclopEngineType = aclopEngineType(0);
pub const ACL_ENGINE_AICORE: aclopEngineType = aclopEngineType(1);
pub const ACL_ENGINE_VECTOR: aclopEngineType = aclopEngineType(2);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclopEngineType(pub ::std::os::raw::c_uint);
pub const ACL_COMPILE_SYS: aclopCompileType = aclopCompileType(0);
pub const ACL_COMPILE_UNREGISTERED: aclopCompileType = aclopCompileType(1);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclopCompileType(pub ::std::os::raw::c_uint);
pub const ACL_PRECISION_MODE: aclCompileOpt = aclCompileOpt(0);
pub const ACL_AICORE_NUM: aclCompileOpt = aclCompileOpt(1);
pub const ACL_AUTO_TUNE_MODE: aclCompileOpt = aclCompileOpt(2);
pub const ACL_OP_SELECT_IMPL_MODE: aclCompileOpt = aclCompileOpt(3);
pub const ACL_OPTYPELIST_FOR_IMPLMODE: aclCompileOpt = aclCompileOpt(4);
pub const ACL_OP_DEBUG_LEVEL: aclCompileOpt = aclCompileOpt(5);
pub const ACL_DEBUG_DIR: aclCompileOpt = aclCompileOpt(6);
pub const ACL_OP_COMPILER_CACHE_MODE: aclCompileOpt = aclCompileOpt(7);
pub const ACL_OP_COMPILER_CACHE_DIR: aclCompileOpt = aclCompileOpt(8);
pub const ACL_OP_PERFORMANCE_MODE: aclCompileOpt = aclCompileOpt(9);
pub const ACL_OP_JIT_COMPILE: aclCompileOpt = aclCompileOpt(10);
pub const ACL_OP_DETERMINISTIC: aclCompileOpt = aclCompileOpt(11);
pub const ACL_CUSTOMIZE_DTYPES: aclCompileOpt = aclCompileOpt(12);
pub const ACL_OP_PRECISION_MODE: aclCompileOpt = aclCompileOpt(13);
pub const ACL_ALLOW_HF32: aclCompileOpt = aclCompileOpt(14);
pub const ACL_PRECISION_MODE_V2: aclCompileOpt = aclCompileOpt(15);
pub const ACL_OP_DEBUG_OPTION: aclCompileOpt = aclCompileOpt(16);
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct aclCompileOpt(pub ::std::os::raw::c_uint);
pub type aclCreateTensorDesc = unsafe extern "C" fn(
    dtype: aclDataType,
    axes: ::std::os::raw::c_int,
    shape: *const i64,
    format: aclFormat,
) -> *mut aclTensorDesc;
pub type aclDestroyTensorDesc = unsafe extern "C" fn(description: *const aclTensorDesc);
pub type aclGetTensorDescType = unsafe extern "C" fn(
    description: *const aclTensorDesc,
) -> aclDataType;
pub type aclGetTensorDescFormat = unsafe extern "C" fn(
    description: *const aclTensorDesc,
) -> aclFormat;
pub type aclGetTensorDescSize = unsafe extern "C" fn(
    description: *const aclTensorDesc,
) -> usize;
pub type aclGetTensorDescElementCount = unsafe extern "C" fn(
    description: *const aclTensorDesc,
) -> usize;
pub type aclGetTensorDescNumDims = unsafe extern "C" fn(
    description: *const aclTensorDesc,
) -> usize;
pub type aclGetTensorDescDimV2 = unsafe extern "C" fn(
    description: *const aclTensorDesc,
    axis: usize,
    length: *mut i64,
) -> aclError;
pub type aclSetTensorDescName = unsafe extern "C" fn(
    description: *mut aclTensorDesc,
    name: *const ::std::os::raw::c_char,
);
pub type aclGetTensorDescName = unsafe extern "C" fn(
    description: *mut aclTensorDesc,
) -> *const ::std::os::raw::c_char;
pub type aclSetTensorFormat = unsafe extern "C" fn(
    description: *mut aclTensorDesc,
    format: aclFormat,
) -> aclError;
pub type aclSetTensorShape = unsafe extern "C" fn(
    description: *mut aclTensorDesc,
    axes: ::std::os::raw::c_int,
    shape: *const i64,
) -> aclError;
pub type aclSetTensorPlaceMent = unsafe extern "C" fn(
    description: *mut aclTensorDesc,
    place: aclMemType,
) -> aclError;
pub type aclopCreateAttr = unsafe extern "C" fn() -> *mut aclopAttr;
pub type aclopDestroyAttr = unsafe extern "C" fn(attributes: *const aclopAttr);
pub type aclopSetAttrBool = unsafe extern "C" fn(
    attributes: *mut aclopAttr,
    name: *const ::std::os::raw::c_char,
    value: u8,
) -> aclError;
pub type aclopSetAttrInt = unsafe extern "C" fn(
    attributes: *mut aclopAttr,
    name: *const ::std::os::raw::c_char,
    value: i64,
) -> aclError;
pub type aclopSetAttrFloat = unsafe extern "C" fn(
    attributes: *mut aclopAttr,
    name: *const ::std::os::raw::c_char,
    value: f32,
) -> aclError;
pub type aclopSetAttrString = unsafe extern "C" fn(
    attributes: *mut aclopAttr,
    name: *const ::std::os::raw::c_char,
    value: *const ::std::os::raw::c_char,
) -> aclError;
pub type aclopSetAttrDataType = unsafe extern "C" fn(
    attributes: *mut aclopAttr,
    name: *const ::std::os::raw::c_char,
    value: aclDataType,
) -> aclError;
pub type aclopSetAttrListBool = unsafe extern "C" fn(
    attributes: *mut aclopAttr,
    name: *const ::std::os::raw::c_char,
    count: ::std::os::raw::c_int,
    values: *const u8,
) -> aclError;
pub type aclopSetAttrListInt = unsafe extern "C" fn(
    attributes: *mut aclopAttr,
    name: *const ::std::os::raw::c_char,
    count: ::std::os::raw::c_int,
    values: *const i64,
) -> aclError;
pub type aclopSetAttrListFloat = unsafe extern "C" fn(
    attributes: *mut aclopAttr,
    name: *const ::std::os::raw::c_char,
    count: ::std::os::raw::c_int,
    values: *const f32,
) -> aclError;
pub type aclopSetAttrListString = unsafe extern "C" fn(
    attributes: *mut aclopAttr,
    name: *const ::std::os::raw::c_char,
    count: ::std::os::raw::c_int,
    values: *mut *const ::std::os::raw::c_char,
) -> aclError;
pub type aclopSetAttrListListInt = unsafe extern "C" fn(
    attributes: *mut aclopAttr,
    name: *const ::std::os::raw::c_char,
    lists: ::std::os::raw::c_int,
    counts: *const ::std::os::raw::c_int,
    values: *const *const i64,
) -> aclError;
pub type aclopCompileAndExecute = unsafe extern "C" fn(
    name: *const ::std::os::raw::c_char,
    inputs: ::std::os::raw::c_int,
    input_descriptions: *const *const aclTensorDesc,
    input_data: *const *const aclDataBuffer,
    outputs: ::std::os::raw::c_int,
    output_descriptions: *const *const aclTensorDesc,
    output_data: *const *mut aclDataBuffer,
    attributes: *const aclopAttr,
    engine: aclopEngineType,
    kind: aclopCompileType,
    path: *const ::std::os::raw::c_char,
    stream: aclrtStream,
) -> aclError;
pub type aclopCompileAndExecuteV2 = unsafe extern "C" fn(
    name: *const ::std::os::raw::c_char,
    inputs: ::std::os::raw::c_int,
    input_descriptions: *mut *mut aclTensorDesc,
    input_data: *mut *mut aclDataBuffer,
    outputs: ::std::os::raw::c_int,
    output_descriptions: *mut *mut aclTensorDesc,
    output_data: *mut *mut aclDataBuffer,
    attributes: *mut aclopAttr,
    engine: aclopEngineType,
    kind: aclopCompileType,
    path: *const ::std::os::raw::c_char,
    stream: aclrtStream,
) -> aclError;
pub type aclSetCompileopt = unsafe extern "C" fn(
    option: aclCompileOpt,
    value: *const ::std::os::raw::c_char,
) -> aclError;
pub type aclGetCompileoptSize = unsafe extern "C" fn(option: aclCompileOpt) -> usize;
pub type aclGetCompileopt = unsafe extern "C" fn(
    option: aclCompileOpt,
    value: *mut ::std::os::raw::c_char,
    length: usize,
) -> aclError;
pub type aclmdlInitDump = unsafe extern "C" fn() -> aclError;
pub type aclmdlSetDump = unsafe extern "C" fn(
    configuration: *const ::std::os::raw::c_char,
) -> aclError;
pub type aclmdlFinalizeDump = unsafe extern "C" fn() -> aclError;
