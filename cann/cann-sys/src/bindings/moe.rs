// Made from include/cann/moe.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

pub use super::types::*;

pub type aclnnMoeGatingTopKSoftmaxGetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensor,
    finished_or_null: *const aclTensor,
    k: i64,
    y_out: *const aclTensor,
    expert_idx_out: *const aclTensor,
    row_idx_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMoeGatingTopKSoftmax = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMoeGatingTopKSoftmaxV2GetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensor,
    finished_or_null: *const aclTensor,
    k: i64,
    renorm: i64,
    output_softmax_result_flag: bool,
    y_out: *const aclTensor,
    expert_idx_out: *const aclTensor,
    softmax_result_out_or_null: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMoeGatingTopKSoftmaxV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMoeGatingTopKGetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensor,
    bias_or_null: *const aclTensor,
    k: i64,
    k_group: i64,
    group_count: i64,
    group_select_mode: i64,
    renorm: i64,
    norm_type: i64,
    out_flag: bool,
    routed_scaling_factor: f64,
    eps: f64,
    y_out: *const aclTensor,
    expert_idx_out: *const aclTensor,
    full_output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMoeGatingTopK = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMoeTokenPermuteGetWorkspaceSize = unsafe extern "C" fn(
    tokens: *const aclTensor,
    indices: *const aclTensor,
    num_out_tokens: i64,
    padded_mode: bool,
    permute_tokens_out: *const aclTensor,
    sorted_indices_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMoeTokenPermute = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMoeTokenPermuteGradGetWorkspaceSize = unsafe extern "C" fn(
    permuted_output_grad: *const aclTensor,
    sorted_indices: *const aclTensor,
    num_topk: i64,
    padded_mode: bool,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMoeTokenPermuteGrad = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMoeTokenUnpermuteGetWorkspaceSize = unsafe extern "C" fn(
    permuted_tokens: *const aclTensor,
    sorted_indices: *const aclTensor,
    probs_or_null: *const aclTensor,
    padded_mode: bool,
    restore_shape_or_null: *const aclIntArray,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMoeTokenUnpermute = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMoeTokenUnpermuteGradGetWorkspaceSize = unsafe extern "C" fn(
    permuted_tokens: *const aclTensor,
    unpermuted_tokens_grad: *const aclTensor,
    sorted_indices: *const aclTensor,
    probs_or_null: *const aclTensor,
    padded_mode: bool,
    restore_shape_or_null: *const aclIntArray,
    permuted_tokens_grad_out: *const aclTensor,
    probs_grad_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMoeTokenUnpermuteGrad = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMoeInitRoutingGetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensor,
    row_idx: *const aclTensor,
    expert_idx: *const aclTensor,
    active_num: i64,
    expanded_x_out: *const aclTensor,
    expanded_row_idx_out: *const aclTensor,
    expanded_expert_idx_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMoeInitRouting = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMoeInitRoutingV2GetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensor,
    expert_idx: *const aclTensor,
    active_num: i64,
    expert_capacity: i64,
    expert_num: i64,
    drop_pad_mode: i64,
    expert_tokens_count_or_cumsum_flag: i64,
    expert_tokens_before_capacity_flag: bool,
    expanded_x_out: *const aclTensor,
    expanded_row_idx_out: *const aclTensor,
    expert_tokens_count_or_cumsum_out_or_null: *const aclTensor,
    expert_tokens_before_capacity_out_or_null: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMoeInitRoutingV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMoeInitRoutingV2GradGetWorkspaceSize = unsafe extern "C" fn(
    grad_expanded_x: *const aclTensor,
    expanded_row_idx: *const aclTensor,
    top_k: i64,
    drop_pad_mode: i64,
    active_num: i64,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMoeInitRoutingV2Grad = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMoeInitRoutingV3GetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensor,
    expert_idx: *const aclTensor,
    scale_or_null: *const aclTensor,
    offset_or_null: *const aclTensor,
    active_num: i64,
    expert_capacity: i64,
    expert_num: i64,
    drop_pad_mode: i64,
    expert_tokens_num_type: i64,
    expert_tokens_num_flag: bool,
    quant_mode: i64,
    active_expert_range_or_null: *const aclIntArray,
    row_idx_type: i64,
    expanded_x_out: *const aclTensor,
    expanded_row_idx_out: *const aclTensor,
    expert_tokens_count_or_cumsum_out: *const aclTensor,
    expanded_scale_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMoeInitRoutingV3 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMoeFinalizeRoutingV2GetWorkspaceSize = unsafe extern "C" fn(
    expanded_x: *const aclTensor,
    expanded_row_idx: *const aclTensor,
    x1_or_null: *const aclTensor,
    x2_or_null: *const aclTensor,
    bias_or_null: *const aclTensor,
    scales_or_null: *const aclTensor,
    expert_idx_or_null: *const aclTensor,
    drop_pad_mode: i64,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMoeFinalizeRoutingV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMoeFinalizeRoutingV2GradGetWorkspaceSize = unsafe extern "C" fn(
    grad_y: *const aclTensor,
    expanded_row_idx: *const aclTensor,
    expanded_x_or_null: *const aclTensor,
    scales_or_null: *const aclTensor,
    expert_idx_or_null: *const aclTensor,
    bias_or_null: *const aclTensor,
    drop_pad_mode: i64,
    active_num: i64,
    expert_num: i64,
    expert_capacity: i64,
    grad_expanded_x_out: *const aclTensor,
    grad_scales_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMoeFinalizeRoutingV2Grad = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMoeComputeExpertTokensGetWorkspaceSize = unsafe extern "C" fn(
    sorted_experts: *const aclTensor,
    num_experts: i64,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMoeComputeExpertTokens = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;

crate::table::function_table! {
    /// The functions of `include/cann/moe.h`.
    Moe {
        aclnnMoeGatingTopKSoftmaxGetWorkspaceSize,
        aclnnMoeGatingTopKSoftmax,
        aclnnMoeGatingTopKSoftmaxV2GetWorkspaceSize,
        aclnnMoeGatingTopKSoftmaxV2,
        aclnnMoeGatingTopKGetWorkspaceSize,
        aclnnMoeGatingTopK,
        aclnnMoeTokenPermuteGetWorkspaceSize,
        aclnnMoeTokenPermute,
        aclnnMoeTokenPermuteGradGetWorkspaceSize,
        aclnnMoeTokenPermuteGrad,
        aclnnMoeTokenUnpermuteGetWorkspaceSize,
        aclnnMoeTokenUnpermute,
        aclnnMoeTokenUnpermuteGradGetWorkspaceSize,
        aclnnMoeTokenUnpermuteGrad,
        aclnnMoeInitRoutingGetWorkspaceSize,
        aclnnMoeInitRouting,
        aclnnMoeInitRoutingV2GetWorkspaceSize,
        aclnnMoeInitRoutingV2,
        aclnnMoeInitRoutingV2GradGetWorkspaceSize,
        aclnnMoeInitRoutingV2Grad,
        aclnnMoeInitRoutingV3GetWorkspaceSize,
        aclnnMoeInitRoutingV3,
        aclnnMoeFinalizeRoutingV2GetWorkspaceSize,
        aclnnMoeFinalizeRoutingV2,
        aclnnMoeFinalizeRoutingV2GradGetWorkspaceSize,
        aclnnMoeFinalizeRoutingV2Grad,
        aclnnMoeComputeExpertTokensGetWorkspaceSize,
        aclnnMoeComputeExpertTokens,
    }
}
