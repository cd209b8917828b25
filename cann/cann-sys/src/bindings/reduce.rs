// Made from include/cann/reduce.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

pub use super::types::*;

pub type aclnnReduceSumGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axes: *const aclIntArray,
    keep: bool,
    to_dtype: aclDataType,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnReduceSum = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMeanGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: *const aclIntArray,
    keep: bool,
    to_dtype: aclDataType,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMean = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMeanV2GetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: *const aclIntArray,
    keep: bool,
    noop_with_empty_axes: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMeanV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnAmaxGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: *const aclIntArray,
    keep: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAmax = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMaxDimGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    keep: bool,
    output: *mut aclTensor,
    indices: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMaxDim = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnArgMaxGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    keep: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnArgMax = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnArgsortGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    descending: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnArgsort = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSortGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    stable: bool,
    axis: i64,
    descending: bool,
    values_out: *mut aclTensor,
    indices_out: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSort = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnTopkGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    k: i64,
    axis: i64,
    largest: bool,
    sorted: bool,
    values_out: *mut aclTensor,
    indices_out: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnTopk = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnHistcGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    bins: i64,
    low: *const aclScalar,
    high: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnHistc = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnBincountGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    weights: *const aclTensor,
    minlength: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnBincount = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnCumsumGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    to_dtype: aclDataType,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnCumsum = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnCumsumV2GetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    exclusive: bool,
    reverse: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnCumsumV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnProdGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    to_dtype: aclDataType,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnProd = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnProdDimGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    keep: bool,
    to_dtype: aclDataType,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnProdDim = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnAminGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: *const aclIntArray,
    keep: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAmin = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMinDimGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    keep: bool,
    output: *mut aclTensor,
    indices: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMinDim = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnArgMinGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    keep: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnArgMin = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnAnyGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: *const aclIntArray,
    keep: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAny = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnAllGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: *const aclIntArray,
    keep: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAll = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnVarGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: *const aclIntArray,
    unbiased: bool,
    keep: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnVar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnCumprodGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: *const aclScalar,
    to_dtype: aclDataType,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnCumprod = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceCumprodGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    axis: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceCumprod = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMaxGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMax = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMinGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMin = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnStdGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: *const aclIntArray,
    correction: i64,
    keep: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnStd = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnVarCorrectionGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: *const aclIntArray,
    correction: i64,
    keep: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnVarCorrection = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLinalgVectorNormGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    order: *const aclScalar,
    axes: *const aclIntArray,
    keep: bool,
    to_dtype: aclDataType,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLinalgVectorNorm = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLogSumExpGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axes: *const aclIntArray,
    keep: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLogSumExp = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;

crate::table::function_table! {
    /// The functions of `include/cann/reduce.h`.
    Reduce {
        aclnnReduceSumGetWorkspaceSize,
        aclnnReduceSum,
        aclnnMeanGetWorkspaceSize,
        aclnnMean,
        aclnnMeanV2GetWorkspaceSize,
        aclnnMeanV2,
        aclnnAmaxGetWorkspaceSize,
        aclnnAmax,
        aclnnMaxDimGetWorkspaceSize,
        aclnnMaxDim,
        aclnnArgMaxGetWorkspaceSize,
        aclnnArgMax,
        aclnnArgsortGetWorkspaceSize,
        aclnnArgsort,
        aclnnSortGetWorkspaceSize,
        aclnnSort,
        aclnnTopkGetWorkspaceSize,
        aclnnTopk,
        aclnnHistcGetWorkspaceSize,
        aclnnHistc,
        aclnnBincountGetWorkspaceSize,
        aclnnBincount,
        aclnnCumsumGetWorkspaceSize,
        aclnnCumsum,
        aclnnCumsumV2GetWorkspaceSize,
        aclnnCumsumV2,
        aclnnProdGetWorkspaceSize,
        aclnnProd,
        aclnnProdDimGetWorkspaceSize,
        aclnnProdDim,
        aclnnAminGetWorkspaceSize,
        aclnnAmin,
        aclnnMinDimGetWorkspaceSize,
        aclnnMinDim,
        aclnnArgMinGetWorkspaceSize,
        aclnnArgMin,
        aclnnAnyGetWorkspaceSize,
        aclnnAny,
        aclnnAllGetWorkspaceSize,
        aclnnAll,
        aclnnVarGetWorkspaceSize,
        aclnnVar,
        aclnnCumprodGetWorkspaceSize,
        aclnnCumprod,
        aclnnInplaceCumprodGetWorkspaceSize,
        aclnnInplaceCumprod,
        aclnnMaxGetWorkspaceSize,
        aclnnMax,
        aclnnMinGetWorkspaceSize,
        aclnnMin,
        aclnnStdGetWorkspaceSize,
        aclnnStd,
        aclnnVarCorrectionGetWorkspaceSize,
        aclnnVarCorrection,
        aclnnLinalgVectorNormGetWorkspaceSize,
        aclnnLinalgVectorNorm,
        aclnnLogSumExpGetWorkspaceSize,
        aclnnLogSumExp,
    }
}
