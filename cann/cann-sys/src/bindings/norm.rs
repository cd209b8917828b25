// Made from include/cann/norm.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

pub use super::types::*;

pub type aclnnRmsNormGetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensor,
    gamma: *const aclTensor,
    epsilon: f64,
    y_out: *const aclTensor,
    rstd_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnRmsNorm = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnRmsNormGradGetWorkspaceSize = unsafe extern "C" fn(
    dy: *const aclTensor,
    x: *const aclTensor,
    rstd: *const aclTensor,
    gamma: *const aclTensor,
    dx_out: *const aclTensor,
    dgamma_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnRmsNormGrad = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnAddRmsNormGetWorkspaceSize = unsafe extern "C" fn(
    x1: *const aclTensor,
    x2: *const aclTensor,
    gamma: *const aclTensor,
    epsilon: f64,
    y_out: *const aclTensor,
    rstd_out: *const aclTensor,
    x_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAddRmsNorm = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceAddRmsNormGetWorkspaceSize = unsafe extern "C" fn(
    x1_inout: *mut aclTensor,
    x2_inout: *mut aclTensor,
    gamma: *const aclTensor,
    epsilon: f64,
    rstd_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceAddRmsNorm = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGemmaRmsNormGetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensor,
    gamma: *const aclTensor,
    epsilon: f64,
    y_out: *const aclTensor,
    rstd_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGemmaRmsNorm = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLayerNormGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    normalized_shape: *const aclIntArray,
    weight_or_null: *const aclTensor,
    bias_or_null: *const aclTensor,
    eps: f64,
    output: *mut aclTensor,
    mean_out_or_null: *mut aclTensor,
    rstd_out_or_null: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLayerNorm = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLayerNormWithImplModeGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    normalized_shape: *const aclIntArray,
    weight_or_null: *const aclTensor,
    bias_or_null: *const aclTensor,
    eps: f64,
    output: *mut aclTensor,
    mean_out_or_null: *mut aclTensor,
    rstd_out_or_null: *mut aclTensor,
    impl_mode: i32,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLayerNormWithImplMode = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLayerNormBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    normalized_shape: *const aclIntArray,
    mean: *const aclTensor,
    rstd: *const aclTensor,
    weight_or_null: *const aclTensor,
    bias_or_null: *const aclTensor,
    output_mask: *const aclBoolArray,
    d_input_out: *mut aclTensor,
    d_weight_out: *mut aclTensor,
    d_bias_out: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLayerNormBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGroupNormGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    gamma_or_null: *const aclTensor,
    beta_or_null: *const aclTensor,
    batch: i64,
    channels: i64,
    places: i64,
    groups: i64,
    eps: f64,
    output: *mut aclTensor,
    mean_out: *mut aclTensor,
    rstd_out: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGroupNorm = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGroupNormBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    mean: *const aclTensor,
    rstd: *const aclTensor,
    gamma_or_null: *const aclTensor,
    batch: i64,
    channels: i64,
    places: i64,
    groups: i64,
    output_mask: *const aclBoolArray,
    d_input: *mut aclTensor,
    d_gamma: *mut aclTensor,
    d_beta: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGroupNormBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;

crate::table::function_table! {
    /// The functions of `include/cann/norm.h`.
    Norm {
        aclnnRmsNormGetWorkspaceSize,
        aclnnRmsNorm,
        aclnnRmsNormGradGetWorkspaceSize,
        aclnnRmsNormGrad,
        aclnnAddRmsNormGetWorkspaceSize,
        aclnnAddRmsNorm,
        aclnnInplaceAddRmsNormGetWorkspaceSize,
        aclnnInplaceAddRmsNorm,
        aclnnGemmaRmsNormGetWorkspaceSize,
        aclnnGemmaRmsNorm,
        aclnnLayerNormGetWorkspaceSize,
        aclnnLayerNorm,
        aclnnLayerNormWithImplModeGetWorkspaceSize,
        aclnnLayerNormWithImplMode,
        aclnnLayerNormBackwardGetWorkspaceSize,
        aclnnLayerNormBackward,
        aclnnGroupNormGetWorkspaceSize,
        aclnnGroupNorm,
        aclnnGroupNormBackwardGetWorkspaceSize,
        aclnnGroupNormBackward,
    }
}
