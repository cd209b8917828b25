// Made from include/cann/create.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

pub use super::types::*;

pub type aclnnInplaceZeroGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceZero = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceFillScalarGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    fill: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceFillScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceFillTensorGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    fill: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceFillTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceOneGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceOne = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceMaskedFillTensorGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    mask: *const aclTensor,
    fill: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceMaskedFillTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnArangeGetWorkspaceSize = unsafe extern "C" fn(
    start: *const aclScalar,
    end: *const aclScalar,
    step: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnArange = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceNormalGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    mean: f32,
    deviation: f32,
    seed: i64,
    generator_offset: i64,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceNormal = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceUniformGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    low: f64,
    high: f64,
    seed: u64,
    generator_offset: u64,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceUniform = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceMaskedFillScalarGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    mask: *const aclTensor,
    fill: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceMaskedFillScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceRandomGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    low: i64,
    high: i64,
    seed: i64,
    generator_offset: i64,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceRandom = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceBernoulliGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    probability: *const aclScalar,
    seed: i64,
    generator_offset: i64,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceBernoulli = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMultinomialGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    draws: i64,
    replacement: bool,
    seed: i64,
    generator_offset: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMultinomial = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLinspaceGetWorkspaceSize = unsafe extern "C" fn(
    start: *const aclScalar,
    end: *const aclScalar,
    steps: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLinspace = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnEyeGetWorkspaceSize = unsafe extern "C" fn(
    rows: i64,
    columns: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnEye = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;

crate::table::function_table! {
    /// The functions of `include/cann/create.h`.
    Create {
        aclnnInplaceZeroGetWorkspaceSize,
        aclnnInplaceZero,
        aclnnInplaceFillScalarGetWorkspaceSize,
        aclnnInplaceFillScalar,
        aclnnInplaceFillTensorGetWorkspaceSize,
        aclnnInplaceFillTensor,
        aclnnInplaceOneGetWorkspaceSize,
        aclnnInplaceOne,
        aclnnInplaceMaskedFillTensorGetWorkspaceSize,
        aclnnInplaceMaskedFillTensor,
        aclnnArangeGetWorkspaceSize,
        aclnnArange,
        aclnnInplaceNormalGetWorkspaceSize,
        aclnnInplaceNormal,
        aclnnInplaceUniformGetWorkspaceSize,
        aclnnInplaceUniform,
        aclnnInplaceMaskedFillScalarGetWorkspaceSize,
        aclnnInplaceMaskedFillScalar,
        aclnnInplaceRandomGetWorkspaceSize,
        aclnnInplaceRandom,
        aclnnInplaceBernoulliGetWorkspaceSize,
        aclnnInplaceBernoulli,
        aclnnMultinomialGetWorkspaceSize,
        aclnnMultinomial,
        aclnnLinspaceGetWorkspaceSize,
        aclnnLinspace,
        aclnnEyeGetWorkspaceSize,
        aclnnEye,
    }
}
