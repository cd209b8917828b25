// Made from include/cann/meta.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

pub use super::types::*;

pub const ACLNN_SUCCESS: aclnnStatus = 0;
pub const ACLNN_ERR_PARAM_NULLPTR: aclnnStatus = 161001;
pub const ACLNN_ERR_PARAM_INVALID: aclnnStatus = 161002;
pub const ACLNN_ERR_RUNTIME_ERROR: aclnnStatus = 361001;
pub const ACLNN_ERR_INNER: aclnnStatus = 561000;
pub const ACLNN_ERR_INNER_INFERSHAPE_ERROR: aclnnStatus = 561001;
pub const ACLNN_ERR_INNER_TILING_ERROR: aclnnStatus = 561002;
pub const ACLNN_ERR_INNER_FIND_KERNEL_ERROR: aclnnStatus = 561003;
pub const ACLNN_ERR_INNER_CREATE_EXECUTOR: aclnnStatus = 561101;
pub const ACLNN_ERR_INNER_NULLPTR: aclnnStatus = 561103;
pub const ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND: aclnnStatus = 561107;
pub const ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND: aclnnStatus = 561112;
pub type aclnnInit = unsafe extern "C" fn(
    config_path: *const ::std::os::raw::c_char,
) -> aclnnStatus;
pub type aclnnFinalize = unsafe extern "C" fn() -> aclnnStatus;
pub type aclCreateTensor = unsafe extern "C" fn(
    shape: *const i64,
    rank: u64,
    data_type: aclDataType,
    strides: *const i64,
    offset: i64,
    format: aclFormat,
    storage_shape: *const i64,
    storage_rank: u64,
    data: *mut ::std::os::raw::c_void,
) -> *mut aclTensor;
pub type aclInitTensor = unsafe extern "C" fn(
    tensor: *mut aclTensor,
    shape: *const i64,
    rank: u64,
    data_type: aclDataType,
    strides: *const i64,
    offset: i64,
    format: aclFormat,
    storage_shape: *const i64,
    storage_rank: u64,
    data: *mut ::std::os::raw::c_void,
) -> aclnnStatus;
pub type aclDestroyTensor = unsafe extern "C" fn(
    tensor: *const aclTensor,
) -> aclnnStatus;
pub type aclGetDataType = unsafe extern "C" fn(
    tensor: *const aclTensor,
    data_type: *mut aclDataType,
) -> aclnnStatus;
pub type aclGetFormat = unsafe extern "C" fn(
    tensor: *const aclTensor,
    format: *mut aclFormat,
) -> aclnnStatus;
pub type aclGetViewOffset = unsafe extern "C" fn(
    tensor: *const aclTensor,
    offset: *mut i64,
) -> aclnnStatus;
pub type aclGetViewShape = unsafe extern "C" fn(
    tensor: *const aclTensor,
    shape: *mut *mut i64,
    rank: *mut u64,
) -> aclnnStatus;
pub type aclGetViewStrides = unsafe extern "C" fn(
    tensor: *const aclTensor,
    strides: *mut *mut i64,
    rank: *mut u64,
) -> aclnnStatus;
pub type aclGetStorageShape = unsafe extern "C" fn(
    tensor: *const aclTensor,
    shape: *mut *mut i64,
    rank: *mut u64,
) -> aclnnStatus;
pub type aclGetRawTensorAddr = unsafe extern "C" fn(
    tensor: *const aclTensor,
    data: *mut *mut ::std::os::raw::c_void,
) -> aclnnStatus;
pub type aclSetRawTensorAddr = unsafe extern "C" fn(
    tensor: *mut aclTensor,
    data: *mut ::std::os::raw::c_void,
) -> aclnnStatus;
pub type aclCreateTensorList = unsafe extern "C" fn(
    tensors: *const *const aclTensor,
    count: u64,
) -> *mut aclTensorList;
pub type aclGetTensorListSize = unsafe extern "C" fn(
    list: *const aclTensorList,
    count: *mut u64,
) -> aclnnStatus;
pub type aclDestroyTensorList = unsafe extern "C" fn(
    list: *const aclTensorList,
) -> aclnnStatus;
pub type aclCreateScalarList = unsafe extern "C" fn(
    scalars: *const *const aclScalar,
    count: u64,
) -> *mut aclScalarList;
pub type aclGetScalarListSize = unsafe extern "C" fn(
    list: *const aclScalarList,
    count: *mut u64,
) -> aclnnStatus;
pub type aclDestroyScalarList = unsafe extern "C" fn(
    list: *const aclScalarList,
) -> aclnnStatus;
pub type aclCreateScalar = unsafe extern "C" fn(
    value: *mut ::std::os::raw::c_void,
    data_type: aclDataType,
) -> *mut aclScalar;
pub type aclDestroyScalar = unsafe extern "C" fn(
    scalar: *const aclScalar,
) -> aclnnStatus;
pub type aclCreateIntArray = unsafe extern "C" fn(
    values: *const i64,
    count: u64,
) -> *mut aclIntArray;
pub type aclGetIntArraySize = unsafe extern "C" fn(
    array: *const aclIntArray,
    count: *mut u64,
) -> aclnnStatus;
pub type aclDestroyIntArray = unsafe extern "C" fn(
    array: *const aclIntArray,
) -> aclnnStatus;
pub type aclCreateFloatArray = unsafe extern "C" fn(
    values: *const f32,
    count: u64,
) -> *mut aclFloatArray;
pub type aclGetFloatArraySize = unsafe extern "C" fn(
    array: *const aclFloatArray,
    count: *mut u64,
) -> aclnnStatus;
pub type aclDestroyFloatArray = unsafe extern "C" fn(
    array: *const aclFloatArray,
) -> aclnnStatus;
pub type aclCreateBoolArray = unsafe extern "C" fn(
    values: *const bool,
    count: u64,
) -> *mut aclBoolArray;
pub type aclGetBoolArraySize = unsafe extern "C" fn(
    array: *const aclBoolArray,
    count: *mut u64,
) -> aclnnStatus;
pub type aclDestroyBoolArray = unsafe extern "C" fn(
    array: *const aclBoolArray,
) -> aclnnStatus;
pub type aclSetAclOpExecutorRepeatable = unsafe extern "C" fn(
    executor: *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclDestroyAclOpExecutor = unsafe extern "C" fn(
    executor: *mut aclOpExecutor,
) -> aclnnStatus;
pub type CommonOpExecutorRun = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclSetTensorAddr = unsafe extern "C" fn(
    executor: *mut aclOpExecutor,
    index: usize,
    tensor: *mut aclTensor,
    data: *mut ::std::os::raw::c_void,
) -> aclnnStatus;
pub type aclSetInputTensorAddr = unsafe extern "C" fn(
    executor: *mut aclOpExecutor,
    index: usize,
    tensor: *mut aclTensor,
    data: *mut ::std::os::raw::c_void,
) -> aclnnStatus;
pub type aclSetOutputTensorAddr = unsafe extern "C" fn(
    executor: *mut aclOpExecutor,
    index: usize,
    tensor: *mut aclTensor,
    data: *mut ::std::os::raw::c_void,
) -> aclnnStatus;
pub type aclSetDynamicTensorAddr = unsafe extern "C" fn(
    executor: *mut aclOpExecutor,
    list: usize,
    member: usize,
    tensors: *mut aclTensorList,
    data: *mut ::std::os::raw::c_void,
) -> aclnnStatus;
pub type aclSetDynamicInputTensorAddr = unsafe extern "C" fn(
    executor: *mut aclOpExecutor,
    list: usize,
    member: usize,
    tensors: *mut aclTensorList,
    data: *mut ::std::os::raw::c_void,
) -> aclnnStatus;
pub type aclSetDynamicOutputTensorAddr = unsafe extern "C" fn(
    executor: *mut aclOpExecutor,
    list: usize,
    member: usize,
    tensors: *mut aclTensorList,
    data: *mut ::std::os::raw::c_void,
) -> aclnnStatus;
pub type AclSetTensorAddr = unsafe extern "C" fn(
    executor: *mut aclOpExecutor,
    index: usize,
    tensor: *mut aclTensor,
    data: *mut ::std::os::raw::c_void,
) -> aclnnStatus;
pub type AclSetInputTensorAddr = unsafe extern "C" fn(
    executor: *mut aclOpExecutor,
    index: usize,
    tensor: *mut aclTensor,
    data: *mut ::std::os::raw::c_void,
) -> aclnnStatus;
pub type AclSetOutputTensorAddr = unsafe extern "C" fn(
    executor: *mut aclOpExecutor,
    index: usize,
    tensor: *mut aclTensor,
    data: *mut ::std::os::raw::c_void,
) -> aclnnStatus;
pub type AclSetDynamicTensorAddr = unsafe extern "C" fn(
    executor: *mut aclOpExecutor,
    list: usize,
    member: usize,
    tensors: *mut aclTensorList,
    data: *mut ::std::os::raw::c_void,
) -> aclnnStatus;
pub type AclSetDynamicInputTensorAddr = unsafe extern "C" fn(
    executor: *mut aclOpExecutor,
    list: usize,
    member: usize,
    tensors: *mut aclTensorList,
    data: *mut ::std::os::raw::c_void,
) -> aclnnStatus;
pub type AclSetDynamicOutputTensorAddr = unsafe extern "C" fn(
    executor: *mut aclOpExecutor,
    list: usize,
    member: usize,
    tensors: *mut aclTensorList,
    data: *mut ::std::os::raw::c_void,
) -> aclnnStatus;

crate::table::function_table! {
    /// The functions of `include/cann/meta.h`.
    Meta {
        aclnnInit,
        aclnnFinalize,
        aclCreateTensor,
        aclInitTensor,
        aclDestroyTensor,
        aclGetDataType,
        aclGetFormat,
        aclGetViewOffset,
        aclGetViewShape,
        aclGetViewStrides,
        aclGetStorageShape,
        aclGetRawTensorAddr,
        aclSetRawTensorAddr,
        aclCreateTensorList,
        aclGetTensorListSize,
        aclDestroyTensorList,
        aclCreateScalarList,
        aclGetScalarListSize,
        aclDestroyScalarList,
        aclCreateScalar,
        aclDestroyScalar,
        aclCreateIntArray,
        aclGetIntArraySize,
        aclDestroyIntArray,
        aclCreateFloatArray,
        aclGetFloatArraySize,
        aclDestroyFloatArray,
        aclCreateBoolArray,
        aclGetBoolArraySize,
        aclDestroyBoolArray,
        aclSetAclOpExecutorRepeatable,
        aclDestroyAclOpExecutor,
        CommonOpExecutorRun,
        aclSetTensorAddr,
        aclSetInputTensorAddr,
        aclSetOutputTensorAddr,
        aclSetDynamicTensorAddr,
        aclSetDynamicInputTensorAddr,
        aclSetDynamicOutputTensorAddr,
        AclSetTensorAddr,
        AclSetInputTensorAddr,
        AclSetOutputTensorAddr,
        AclSetDynamicTensorAddr,
        AclSetDynamicInputTensorAddr,
        AclSetDynamicOutputTensorAddr,
    }
}
