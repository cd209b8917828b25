// Made from include/cann/index.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

pub use super::types::*;

pub type aclnnIndexSelectGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    index: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnIndexSelect = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGatherGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    index: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGather = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnScatterAddGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    index: *const aclTensor,
    src: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnScatterAdd = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnIndexAddGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    index: *const aclTensor,
    source: *const aclTensor,
    alpha: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnIndexAdd = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnEmbeddingGetWorkspaceSize = unsafe extern "C" fn(
    weight: *const aclTensor,
    indices: *const aclTensor,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnEmbedding = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnEmbeddingDenseBackwardGetWorkspaceSize = unsafe extern "C" fn(
    gradient: *const aclTensor,
    indices: *const aclTensor,
    num_weights: u64,
    padding_idx: u64,
    scale_grad_by_freq: bool,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnEmbeddingDenseBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSWhereGetWorkspaceSize = unsafe extern "C" fn(
    condition: *const aclTensor,
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSWhere = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnScatterGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    index: *const aclTensor,
    src: *const aclTensor,
    reduction: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnScatter = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnIndexPutImplGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    indices: *const aclTensorList,
    values: *const aclTensor,
    accumulate: bool,
    unchecked: bool,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnIndexPutImpl = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnIndexGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    indices: *const aclTensorList,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnIndex = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMaskedSelectGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    mask: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMaskedSelect = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnNonzeroGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnNonzero = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnUnique2GetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    sorted: bool,
    return_inverse: bool,
    return_counts: bool,
    values_out: *mut aclTensor,
    inverse_out: *mut aclTensor,
    counts_out: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnUnique2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnNonzeroV2GetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnNonzeroV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnOneHotGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    classes: ::std::os::raw::c_int,
    on: *const aclTensor,
    off: *const aclTensor,
    axis: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnOneHot = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceScatterGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    axis: i64,
    index: *const aclTensor,
    src: *const aclTensor,
    reduction: i64,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceScatter = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnScatterValueGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    index: *const aclTensor,
    value: *const aclScalar,
    reduction: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnScatterValue = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceScatterValueGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    axis: i64,
    index: *const aclTensor,
    value: *const aclScalar,
    reduction: i64,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceScatterValue = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceMaskedScatterGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    mask: *const aclTensor,
    source: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceMaskedScatter = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnIndexFillTensorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    index: *const aclIntArray,
    fill: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnIndexFillTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceIndexFillTensorGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    axis: i64,
    index: *const aclIntArray,
    fill: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceIndexFillTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnIndexFillGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    index: *const aclTensor,
    fill: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnIndexFill = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceIndexFillGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    axis: i64,
    index: *const aclTensor,
    fill: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceIndexFill = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;

crate::table::function_table! {
    /// The functions of `include/cann/index.h`.
    Index {
        aclnnIndexSelectGetWorkspaceSize,
        aclnnIndexSelect,
        aclnnGatherGetWorkspaceSize,
        aclnnGather,
        aclnnScatterAddGetWorkspaceSize,
        aclnnScatterAdd,
        aclnnIndexAddGetWorkspaceSize,
        aclnnIndexAdd,
        aclnnEmbeddingGetWorkspaceSize,
        aclnnEmbedding,
        aclnnEmbeddingDenseBackwardGetWorkspaceSize,
        aclnnEmbeddingDenseBackward,
        aclnnSWhereGetWorkspaceSize,
        aclnnSWhere,
        aclnnScatterGetWorkspaceSize,
        aclnnScatter,
        aclnnIndexPutImplGetWorkspaceSize,
        aclnnIndexPutImpl,
        aclnnIndexGetWorkspaceSize,
        aclnnIndex,
        aclnnMaskedSelectGetWorkspaceSize,
        aclnnMaskedSelect,
        aclnnNonzeroGetWorkspaceSize,
        aclnnNonzero,
        aclnnUnique2GetWorkspaceSize,
        aclnnUnique2,
        aclnnNonzeroV2GetWorkspaceSize,
        aclnnNonzeroV2,
        aclnnOneHotGetWorkspaceSize,
        aclnnOneHot,
        aclnnInplaceScatterGetWorkspaceSize,
        aclnnInplaceScatter,
        aclnnScatterValueGetWorkspaceSize,
        aclnnScatterValue,
        aclnnInplaceScatterValueGetWorkspaceSize,
        aclnnInplaceScatterValue,
        aclnnInplaceMaskedScatterGetWorkspaceSize,
        aclnnInplaceMaskedScatter,
        aclnnIndexFillTensorGetWorkspaceSize,
        aclnnIndexFillTensor,
        aclnnInplaceIndexFillTensorGetWorkspaceSize,
        aclnnInplaceIndexFillTensor,
        aclnnIndexFillGetWorkspaceSize,
        aclnnIndexFill,
        aclnnInplaceIndexFillGetWorkspaceSize,
        aclnnInplaceIndexFill,
    }
}
