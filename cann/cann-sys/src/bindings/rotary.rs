// Made from include/cann/rotary.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

pub use super::types::*;

pub type aclnnRotaryPositionEmbeddingGetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensor,
    cos: *const aclTensor,
    sin: *const aclTensor,
    mode: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnRotaryPositionEmbedding = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnRotaryPositionEmbeddingV2GetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensor,
    cos: *const aclTensor,
    sin: *const aclTensor,
    mode: i64,
    rotate: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnRotaryPositionEmbeddingV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnRotaryPositionEmbeddingGradGetWorkspaceSize = unsafe extern "C" fn(
    dy: *const aclTensor,
    cos: *const aclTensor,
    sin: *const aclTensor,
    x_or_null: *const aclTensor,
    mode: i64,
    dx_out: *const aclTensor,
    dcos_out: *const aclTensor,
    dsin_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnRotaryPositionEmbeddingGrad = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnApplyRotaryPosEmbGetWorkspaceSize = unsafe extern "C" fn(
    query_inout: *mut aclTensor,
    key_inout: *mut aclTensor,
    cos: *const aclTensor,
    sin: *const aclTensor,
    layout: i64,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnApplyRotaryPosEmb = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnApplyRotaryPosEmbV2GetWorkspaceSize = unsafe extern "C" fn(
    query_inout: *mut aclTensor,
    key_inout: *mut aclTensor,
    cos: *const aclTensor,
    sin: *const aclTensor,
    layout: i64,
    rotary_mode: *mut ::std::os::raw::c_char,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnApplyRotaryPosEmbV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;

crate::table::function_table! {
    /// The functions of `include/cann/rotary.h`.
    Rotary {
        aclnnRotaryPositionEmbeddingGetWorkspaceSize,
        aclnnRotaryPositionEmbedding,
        aclnnRotaryPositionEmbeddingV2GetWorkspaceSize,
        aclnnRotaryPositionEmbeddingV2,
        aclnnRotaryPositionEmbeddingGradGetWorkspaceSize,
        aclnnRotaryPositionEmbeddingGrad,
        aclnnApplyRotaryPosEmbGetWorkspaceSize,
        aclnnApplyRotaryPosEmb,
        aclnnApplyRotaryPosEmbV2GetWorkspaceSize,
        aclnnApplyRotaryPosEmbV2,
    }
}
