// Made from include/cann/grouped_matmul.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

pub use super::types::*;

pub type aclnnGroupedMatmulV5GetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensorList,
    weight: *const aclTensorList,
    bias_or_null: *const aclTensorList,
    scale_or_null: *const aclTensorList,
    offset_or_null: *const aclTensorList,
    antiquant_scale_or_null: *const aclTensorList,
    antiquant_offset_or_null: *const aclTensorList,
    per_token_scale_or_null: *const aclTensorList,
    group_list_or_null: *const aclTensor,
    activation_input_or_null: *const aclTensorList,
    activation_quant_scale_or_null: *const aclTensorList,
    activation_quant_offset_or_null: *const aclTensorList,
    split_item: i64,
    group_type: i64,
    group_list_type: i64,
    act_type: i64,
    tuning_config_or_null: *mut aclIntArray,
    output: *mut aclTensorList,
    activation_feature_out_or_null: *mut aclTensorList,
    dyn_quant_scale_out_or_null: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGroupedMatmulV5 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGroupedMatmulV4GetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensorList,
    weight: *const aclTensorList,
    bias_or_null: *const aclTensorList,
    scale_or_null: *const aclTensorList,
    offset_or_null: *const aclTensorList,
    antiquant_scale_or_null: *const aclTensorList,
    antiquant_offset_or_null: *const aclTensorList,
    per_token_scale_or_null: *const aclTensorList,
    group_list_or_null: *const aclTensor,
    activation_input_or_null: *const aclTensorList,
    activation_quant_scale_or_null: *const aclTensorList,
    activation_quant_offset_or_null: *const aclTensorList,
    split_item: i64,
    group_type: i64,
    group_list_type: i64,
    act_type: i64,
    output: *mut aclTensorList,
    activation_feature_out_or_null: *mut aclTensorList,
    dyn_quant_scale_out_or_null: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGroupedMatmulV4 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGroupedMatmulV3GetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensorList,
    weight: *const aclTensorList,
    bias_or_null: *const aclTensorList,
    scale_or_null: *const aclTensorList,
    offset_or_null: *const aclTensorList,
    antiquant_scale_or_null: *const aclTensorList,
    antiquant_offset_or_null: *const aclTensorList,
    group_list_or_null: *const aclTensor,
    split_item: i64,
    group_type: i64,
    outputs: *const aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGroupedMatmulV3 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGroupedMatmulV2GetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensorList,
    weight: *const aclTensorList,
    bias_or_null: *const aclTensorList,
    scale_or_null: *const aclTensorList,
    offset_or_null: *const aclTensorList,
    antiquant_scale_or_null: *const aclTensorList,
    antiquant_offset_or_null: *const aclTensorList,
    group_list_or_null: *const aclIntArray,
    split_item: i64,
    group_type: i64,
    outputs: *const aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGroupedMatmulV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGroupedMatmulGetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensorList,
    weight: *const aclTensorList,
    bias_or_null: *const aclTensorList,
    scale_or_null: *const aclTensorList,
    offset_or_null: *const aclTensorList,
    antiquant_scale_or_null: *const aclTensorList,
    antiquant_offset_or_null: *const aclTensorList,
    group_list_or_null: *const aclIntArray,
    split_item: i64,
    outputs: *const aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGroupedMatmul = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGroupedMatmulAddV2GetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensor,
    weight: *const aclTensor,
    group_list: *const aclTensor,
    y_inout: *mut aclTensor,
    transpose_x: bool,
    transpose_weight: bool,
    group_type: i64,
    group_list_type: i64,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGroupedMatmulAddV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGroupedMatmulAddGetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensor,
    weight: *const aclTensor,
    group_list: *const aclTensor,
    y_inout: *mut aclTensor,
    transpose_x: bool,
    transpose_weight: bool,
    group_type: i64,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGroupedMatmulAdd = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;

crate::table::function_table! {
    /// The functions of `include/cann/grouped_matmul.h`.
    GroupedMatmul {
        aclnnGroupedMatmulV5GetWorkspaceSize,
        aclnnGroupedMatmulV5,
        aclnnGroupedMatmulV4GetWorkspaceSize,
        aclnnGroupedMatmulV4,
        aclnnGroupedMatmulV3GetWorkspaceSize,
        aclnnGroupedMatmulV3,
        aclnnGroupedMatmulV2GetWorkspaceSize,
        aclnnGroupedMatmulV2,
        aclnnGroupedMatmulGetWorkspaceSize,
        aclnnGroupedMatmul,
        aclnnGroupedMatmulAddV2GetWorkspaceSize,
        aclnnGroupedMatmulAddV2,
        aclnnGroupedMatmulAddGetWorkspaceSize,
        aclnnGroupedMatmulAdd,
    }
}
