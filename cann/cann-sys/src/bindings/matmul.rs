// Made from include/cann/matmul.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

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
pub type aclnnBaddbmmGetWorkspaceSize = unsafe extern "C" fn(
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
pub type aclnnBaddbmm = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceBaddbmmGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    left: *const aclTensor,
    right: *const aclTensor,
    beta: *const aclScalar,
    alpha: *const aclScalar,
    cube_math: i8,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceBaddbmm = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnConvolutionGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    weight: *const aclTensor,
    bias_or_null: *const aclTensor,
    stride: *const aclIntArray,
    padding: *const aclIntArray,
    dilation: *const aclIntArray,
    transposed: bool,
    output_padding: *const aclIntArray,
    groups: i64,
    output: *mut aclTensor,
    cube_math: i8,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnConvolution = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnWeightQuantBatchMatmulGetWorkspaceSize = unsafe extern "C" fn(
    x1: *const aclTensor,
    x2: *const aclTensor,
    diagonal_or_null: *const aclTensor,
    deq_offset_or_null: *const aclTensor,
    deq_scale_or_null: *const aclTensor,
    add_offset_or_null: *const aclTensor,
    mul_scale_or_null: *const aclTensor,
    bias_or_null: *const aclTensor,
    transpose_x1: bool,
    transpose_x2: bool,
    antiquant_scale: f32,
    antiquant_offset: f32,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnWeightQuantBatchMatmul = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnWeightQuantBatchMatmulV2GetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensor,
    weight: *const aclTensor,
    antiquant_scale: *const aclTensor,
    antiquant_offset_or_null: *const aclTensor,
    quant_scale_or_null: *const aclTensor,
    quant_offset_or_null: *const aclTensor,
    bias_or_null: *const aclTensor,
    antiquant_group_size: ::std::os::raw::c_int,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnWeightQuantBatchMatmulV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnWeightQuantBatchMatmulV3GetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensor,
    weight: *const aclTensor,
    antiquant_scale: *const aclTensor,
    antiquant_offset_or_null: *const aclTensor,
    quant_scale_or_null: *const aclTensor,
    quant_offset_or_null: *const aclTensor,
    bias_or_null: *const aclTensor,
    antiquant_group_size: ::std::os::raw::c_int,
    inner_precise: ::std::os::raw::c_int,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnWeightQuantBatchMatmulV3 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnConvertWeightToINT4PackGetWorkspaceSize = unsafe extern "C" fn(
    weight: *const aclTensor,
    packed: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnConvertWeightToINT4Pack = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMvGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    vector: *const aclTensor,
    output: *mut aclTensor,
    cube_math: i8,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMv = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnDotGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnDot = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnConvolutionBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    weight: *const aclTensor,
    bias_sizes_or_null: *const aclIntArray,
    stride: *const aclIntArray,
    padding: *const aclIntArray,
    dilation: *const aclIntArray,
    transposed: bool,
    output_padding: *const aclIntArray,
    groups: ::std::os::raw::c_int,
    output_mask: *const aclBoolArray,
    cube_math: i8,
    d_input: *mut aclTensor,
    d_weight: *mut aclTensor,
    d_bias: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnConvolutionBackward = unsafe extern "C" fn(
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
        aclnnBaddbmmGetWorkspaceSize,
        aclnnBaddbmm,
        aclnnInplaceBaddbmmGetWorkspaceSize,
        aclnnInplaceBaddbmm,
        aclnnConvolutionGetWorkspaceSize,
        aclnnConvolution,
        aclnnWeightQuantBatchMatmulGetWorkspaceSize,
        aclnnWeightQuantBatchMatmul,
        aclnnWeightQuantBatchMatmulV2GetWorkspaceSize,
        aclnnWeightQuantBatchMatmulV2,
        aclnnWeightQuantBatchMatmulV3GetWorkspaceSize,
        aclnnWeightQuantBatchMatmulV3,
        aclnnConvertWeightToINT4PackGetWorkspaceSize,
        aclnnConvertWeightToINT4Pack,
        aclnnMvGetWorkspaceSize,
        aclnnMv,
        aclnnDotGetWorkspaceSize,
        aclnnDot,
        aclnnConvolutionBackwardGetWorkspaceSize,
        aclnnConvolutionBackward,
    }
}
