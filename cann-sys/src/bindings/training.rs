// Made from include/cann/training.h by tests/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p cann-sys --test bindings

pub use super::types::*;

pub type aclnnCrossEntropyLossGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    target: *const aclTensor,
    weight_or_null: *const aclTensor,
    reduction_or_null: *mut ::std::os::raw::c_char,
    ignore_index: i64,
    label_smoothing: f64,
    lse_square_scale_for_zloss: f64,
    return_zloss: bool,
    loss_out: *const aclTensor,
    log_prob_out: *const aclTensor,
    zloss_out: *const aclTensor,
    lse_for_zloss_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnCrossEntropyLoss = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnCrossEntropyLossGradGetWorkspaceSize = unsafe extern "C" fn(
    grad_loss: *const aclTensor,
    log_prob: *const aclTensor,
    target: *const aclTensor,
    weight_or_null: *const aclTensor,
    grad_zloss_or_null: *const aclTensor,
    lse_for_zloss_or_null: *const aclTensor,
    reduction_or_null: *mut ::std::os::raw::c_char,
    ignore_index: i64,
    label_smoothing: f64,
    lse_square_scale_for_zloss: f64,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnCrossEntropyLossGrad = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnNLLLossGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    target: *const aclTensor,
    weight: *const aclTensor,
    reduction: i64,
    ignore_index: i64,
    output: *mut aclTensor,
    total_weight_out: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnNLLLoss = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnNLLLossBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    target: *const aclTensor,
    weight: *const aclTensor,
    reduction: i64,
    ignore_index: i64,
    total_weight: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnNLLLossBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnApplyAdamWV2GetWorkspaceSize = unsafe extern "C" fn(
    var_inout: *mut aclTensor,
    m_inout: *mut aclTensor,
    v_inout: *mut aclTensor,
    max_grad_norm_optional_inout: *mut aclTensor,
    gradient: *const aclTensor,
    step: *const aclTensor,
    lr: f32,
    beta1: f32,
    beta2: f32,
    weight_decay: f32,
    eps: f32,
    amsgrad: bool,
    maximize: bool,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnApplyAdamWV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;

crate::table::function_table! {
    /// The functions of `include/cann/training.h`.
    Training {
        aclnnCrossEntropyLossGetWorkspaceSize,
        aclnnCrossEntropyLoss,
        aclnnCrossEntropyLossGradGetWorkspaceSize,
        aclnnCrossEntropyLossGrad,
        aclnnNLLLossGetWorkspaceSize,
        aclnnNLLLoss,
        aclnnNLLLossBackwardGetWorkspaceSize,
        aclnnNLLLossBackward,
        aclnnApplyAdamWV2GetWorkspaceSize,
        aclnnApplyAdamWV2,
    }
}
