// Made from include/cann/training.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

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
pub type aclnnMseLossGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    target: *const aclTensor,
    reduction: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMseLoss = unsafe extern "C" fn(
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
pub type aclnnMseLossBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    target: *const aclTensor,
    reduction: i64,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMseLossBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnForeachAddScalarV2GetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensorList,
    scalar: *const aclScalar,
    output: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnForeachAddScalarV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnForeachMulScalarV2GetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensorList,
    scalar: *const aclScalar,
    output: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnForeachMulScalarV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnForeachDivScalarV2GetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensorList,
    scalar: *const aclScalar,
    output: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnForeachDivScalarV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnForeachLerpScalarGetWorkspaceSize = unsafe extern "C" fn(
    x1: *const aclTensorList,
    x2: *const aclTensorList,
    scalar: *const aclScalar,
    output: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnForeachLerpScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnForeachAddListV2GetWorkspaceSize = unsafe extern "C" fn(
    x1: *const aclTensorList,
    x2: *const aclTensorList,
    scalar: *const aclScalar,
    output: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnForeachAddListV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnForeachAddcmulScalarV2GetWorkspaceSize = unsafe extern "C" fn(
    x1: *const aclTensorList,
    x2: *const aclTensorList,
    x3: *const aclTensorList,
    scalar: *const aclScalar,
    output: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnForeachAddcmulScalarV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnForeachAddcdivScalarV2GetWorkspaceSize = unsafe extern "C" fn(
    x1: *const aclTensorList,
    x2: *const aclTensorList,
    x3: *const aclTensorList,
    scalar: *const aclScalar,
    output: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnForeachAddcdivScalarV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnForeachMulScalarListGetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensorList,
    scalars: *const aclScalarList,
    output: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnForeachMulScalarList = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnForeachDivScalarListGetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensorList,
    scalars: *const aclScalarList,
    output: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnForeachDivScalarList = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnForeachAddcdivScalarListGetWorkspaceSize = unsafe extern "C" fn(
    x1: *const aclTensorList,
    x2: *const aclTensorList,
    x3: *const aclTensorList,
    scalars: *const aclScalarList,
    output: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnForeachAddcdivScalarList = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnForeachSqrtGetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensorList,
    output: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnForeachSqrt = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnForeachMulListGetWorkspaceSize = unsafe extern "C" fn(
    x1: *const aclTensorList,
    x2: *const aclTensorList,
    output: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnForeachMulList = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnForeachDivListGetWorkspaceSize = unsafe extern "C" fn(
    x1: *const aclTensorList,
    x2: *const aclTensorList,
    output: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnForeachDivList = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnForeachNormGetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensorList,
    order: *const aclScalar,
    output: *mut aclTensorList,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnForeachNorm = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnL1LossGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    target: *const aclTensor,
    reduction: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnL1Loss = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnL1LossBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    target: *const aclTensor,
    reduction: i64,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnL1LossBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSmoothL1LossGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    target: *const aclTensor,
    reduction: i64,
    beta: f32,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSmoothL1Loss = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSmoothL1LossBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    target: *const aclTensor,
    reduction: i64,
    beta: f32,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSmoothL1LossBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnKlDivGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    target: *const aclTensor,
    reduction: i64,
    log_target: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnKlDiv = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnKlDivBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    target: *const aclTensor,
    reduction: i64,
    log_target: bool,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnKlDivBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnBinaryCrossEntropyGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    target: *const aclTensor,
    weight_or_null: *const aclTensor,
    reduction: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnBinaryCrossEntropy = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnBinaryCrossEntropyBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    target: *const aclTensor,
    weight_or_null: *const aclTensor,
    reduction: i64,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnBinaryCrossEntropyBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnBinaryCrossEntropyWithLogitsGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    target: *const aclTensor,
    weight_or_null: *const aclTensor,
    pos_weight_or_null: *const aclTensor,
    reduction: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnBinaryCrossEntropyWithLogits = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnBinaryCrossEntropyWithLogitsBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    target: *const aclTensor,
    weight_or_null: *const aclTensor,
    pos_weight_or_null: *const aclTensor,
    reduction: i64,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnBinaryCrossEntropyWithLogitsBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnBinaryCrossEntropyWithLogitsTargetBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    target: *const aclTensor,
    weight_or_null: *const aclTensor,
    pos_weight_or_null: *const aclTensor,
    reduction: i64,
    d_target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnBinaryCrossEntropyWithLogitsTargetBackward = unsafe extern "C" fn(
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
        aclnnMseLossGetWorkspaceSize,
        aclnnMseLoss,
        aclnnApplyAdamWV2GetWorkspaceSize,
        aclnnApplyAdamWV2,
        aclnnMseLossBackwardGetWorkspaceSize,
        aclnnMseLossBackward,
        aclnnForeachAddScalarV2GetWorkspaceSize,
        aclnnForeachAddScalarV2,
        aclnnForeachMulScalarV2GetWorkspaceSize,
        aclnnForeachMulScalarV2,
        aclnnForeachDivScalarV2GetWorkspaceSize,
        aclnnForeachDivScalarV2,
        aclnnForeachLerpScalarGetWorkspaceSize,
        aclnnForeachLerpScalar,
        aclnnForeachAddListV2GetWorkspaceSize,
        aclnnForeachAddListV2,
        aclnnForeachAddcmulScalarV2GetWorkspaceSize,
        aclnnForeachAddcmulScalarV2,
        aclnnForeachAddcdivScalarV2GetWorkspaceSize,
        aclnnForeachAddcdivScalarV2,
        aclnnForeachMulScalarListGetWorkspaceSize,
        aclnnForeachMulScalarList,
        aclnnForeachDivScalarListGetWorkspaceSize,
        aclnnForeachDivScalarList,
        aclnnForeachAddcdivScalarListGetWorkspaceSize,
        aclnnForeachAddcdivScalarList,
        aclnnForeachSqrtGetWorkspaceSize,
        aclnnForeachSqrt,
        aclnnForeachMulListGetWorkspaceSize,
        aclnnForeachMulList,
        aclnnForeachDivListGetWorkspaceSize,
        aclnnForeachDivList,
        aclnnForeachNormGetWorkspaceSize,
        aclnnForeachNorm,
        aclnnL1LossGetWorkspaceSize,
        aclnnL1Loss,
        aclnnL1LossBackwardGetWorkspaceSize,
        aclnnL1LossBackward,
        aclnnSmoothL1LossGetWorkspaceSize,
        aclnnSmoothL1Loss,
        aclnnSmoothL1LossBackwardGetWorkspaceSize,
        aclnnSmoothL1LossBackward,
        aclnnKlDivGetWorkspaceSize,
        aclnnKlDiv,
        aclnnKlDivBackwardGetWorkspaceSize,
        aclnnKlDivBackward,
        aclnnBinaryCrossEntropyGetWorkspaceSize,
        aclnnBinaryCrossEntropy,
        aclnnBinaryCrossEntropyBackwardGetWorkspaceSize,
        aclnnBinaryCrossEntropyBackward,
        aclnnBinaryCrossEntropyWithLogitsGetWorkspaceSize,
        aclnnBinaryCrossEntropyWithLogits,
        aclnnBinaryCrossEntropyWithLogitsBackwardGetWorkspaceSize,
        aclnnBinaryCrossEntropyWithLogitsBackward,
        aclnnBinaryCrossEntropyWithLogitsTargetBackwardGetWorkspaceSize,
        aclnnBinaryCrossEntropyWithLogitsTargetBackward,
    }
}
