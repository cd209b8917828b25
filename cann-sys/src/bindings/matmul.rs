// Made from include/cann/matmul.h by tests/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p cann-sys --test bindings

pub use super::types::*;

pub type aclnnMatmulGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    right: *const aclTensor,
    output: *mut aclTensor,
    cube_math: i8,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMatmul = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMmGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    right: *const aclTensor,
    output: *mut aclTensor,
    cube_math: i8,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMm = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnBatchMatMulGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    right: *const aclTensor,
    output: *mut aclTensor,
    cube_math: i8,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnBatchMatMul = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnAddmmGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    left: *const aclTensor,
    right: *const aclTensor,
    beta: *const aclScalar,
    alpha: *const aclScalar,
    output: *mut aclTensor,
    cube_math: i8,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAddmm = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceAddmmGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    left: *const aclTensor,
    right: *const aclTensor,
    beta: *const aclScalar,
    alpha: *const aclScalar,
    cube_math: i8,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceAddmm = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;

crate::table::function_table! {
    /// The functions of `include/cann/matmul.h`.
    Matmul {
        aclnnMatmulGetWorkspaceSize,
        aclnnMatmul,
        aclnnMmGetWorkspaceSize,
        aclnnMm,
        aclnnBatchMatMulGetWorkspaceSize,
        aclnnBatchMatMul,
        aclnnAddmmGetWorkspaceSize,
        aclnnAddmm,
        aclnnInplaceAddmmGetWorkspaceSize,
        aclnnInplaceAddmm,
    }
}
