// Made from include/cann/shape.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

pub use super::types::*;

pub type aclnnInplaceCopyGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    src: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceCopy = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnCastGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    to_dtype: aclDataType,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnCast = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnCatGetWorkspaceSize = unsafe extern "C" fn(
    tensors: *const aclTensorList,
    axis: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnCat = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnStackGetWorkspaceSize = unsafe extern "C" fn(
    tensors: *const aclTensorList,
    axis: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnStack = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnPermuteGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axes: *const aclIntArray,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnPermute = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSliceGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    start: i64,
    end: i64,
    step: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSlice = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnExpandGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    shape: *const aclIntArray,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnExpand = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnTriuGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    diagonal: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnTriu = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceTriuGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    diagonal: i64,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceTriu = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnTrilGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    diagonal: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnTril = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceTrilGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    diagonal: i64,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceTril = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnFlipGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axes: *const aclIntArray,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnFlip = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnRepeatGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    repeats: *const aclIntArray,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnRepeat = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnRollGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    shifts: *const aclIntArray,
    axes: *const aclIntArray,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnRoll = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnRepeatInterleaveIntWithDimGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    repeats: i64,
    axis: i64,
    output_size: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnRepeatInterleaveIntWithDim = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnConstantPadNdGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    pad: *const aclIntArray,
    value: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnConstantPadNd = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;

crate::table::function_table! {
    /// The functions of `include/cann/shape.h`.
    Shape {
        aclnnInplaceCopyGetWorkspaceSize,
        aclnnInplaceCopy,
        aclnnCastGetWorkspaceSize,
        aclnnCast,
        aclnnCatGetWorkspaceSize,
        aclnnCat,
        aclnnStackGetWorkspaceSize,
        aclnnStack,
        aclnnPermuteGetWorkspaceSize,
        aclnnPermute,
        aclnnSliceGetWorkspaceSize,
        aclnnSlice,
        aclnnExpandGetWorkspaceSize,
        aclnnExpand,
        aclnnTriuGetWorkspaceSize,
        aclnnTriu,
        aclnnInplaceTriuGetWorkspaceSize,
        aclnnInplaceTriu,
        aclnnTrilGetWorkspaceSize,
        aclnnTril,
        aclnnInplaceTrilGetWorkspaceSize,
        aclnnInplaceTril,
        aclnnFlipGetWorkspaceSize,
        aclnnFlip,
        aclnnRepeatGetWorkspaceSize,
        aclnnRepeat,
        aclnnRollGetWorkspaceSize,
        aclnnRoll,
        aclnnRepeatInterleaveIntWithDimGetWorkspaceSize,
        aclnnRepeatInterleaveIntWithDim,
        aclnnConstantPadNdGetWorkspaceSize,
        aclnnConstantPadNd,
    }
}
