// Made from include/cann/elementwise.h by tests/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p cann-sys --test bindings

pub use super::types::*;

pub type aclnnAddGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    alpha: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAdd = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceAddGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    rhs: *const aclTensor,
    alpha: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceAdd = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnAddsGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    alpha: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAdds = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceAddsGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    rhs: *const aclScalar,
    alpha: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceAdds = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnClampGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    low: *const aclScalar,
    high: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnClamp = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnClampMaxGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    high: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnClampMax = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceClampMaxGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    high: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceClampMax = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnClampMaxTensorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    high: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnClampMaxTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceClampMaxTensorGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    high: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceClampMaxTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnClampMinGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    low: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnClampMin = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnClampMinTensorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    low: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnClampMinTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceClampMinTensorGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    low: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceClampMinTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnClampTensorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    low: *const aclTensor,
    high: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnClampTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnDivGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnDiv = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceDivGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceDiv = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnDivModGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    mode: ::std::os::raw::c_int,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnDivMod = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceDivModGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclTensor,
    mode: ::std::os::raw::c_int,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceDivMod = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnDivModsGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    mode: ::std::os::raw::c_int,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnDivMods = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceDivModsGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclScalar,
    mode: ::std::os::raw::c_int,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceDivMods = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnDivsGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnDivs = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceDivsGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceDivs = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnExpGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnExp = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceExpGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceExp = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGtTensorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGtTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceGtTensorGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    rhs: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceGtTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceLogGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceLog = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLogGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLog = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMaximumGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMaximum = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceMulGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceMul = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMulGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMul = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceMulsGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceMuls = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMulsGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMuls = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceNegGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceNeg = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnNegGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnNeg = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnPowScalarTensorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclScalar,
    exponent: *const aclTensor,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnPowScalarTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplacePowTensorScalarGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    exponent: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplacePowTensorScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnPowTensorScalarGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    exponent: *const aclScalar,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnPowTensorScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceRsqrtGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceRsqrt = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnRsqrtGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnRsqrt = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceSqrtGetWorkspaceSize = unsafe extern "C" fn(
    input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceSqrt = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSqrtGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSqrt = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceSubGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclTensor,
    alpha: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceSub = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSubGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    alpha: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSub = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceSubsGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclScalar,
    alpha: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceSubs = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSubsGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    alpha: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSubs = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;

crate::table::function_table! {
    /// The functions of `include/cann/elementwise.h`.
    Elementwise {
        aclnnAddGetWorkspaceSize,
        aclnnAdd,
        aclnnInplaceAddGetWorkspaceSize,
        aclnnInplaceAdd,
        aclnnAddsGetWorkspaceSize,
        aclnnAdds,
        aclnnInplaceAddsGetWorkspaceSize,
        aclnnInplaceAdds,
        aclnnClampGetWorkspaceSize,
        aclnnClamp,
        aclnnClampMaxGetWorkspaceSize,
        aclnnClampMax,
        aclnnInplaceClampMaxGetWorkspaceSize,
        aclnnInplaceClampMax,
        aclnnClampMaxTensorGetWorkspaceSize,
        aclnnClampMaxTensor,
        aclnnInplaceClampMaxTensorGetWorkspaceSize,
        aclnnInplaceClampMaxTensor,
        aclnnClampMinGetWorkspaceSize,
        aclnnClampMin,
        aclnnClampMinTensorGetWorkspaceSize,
        aclnnClampMinTensor,
        aclnnInplaceClampMinTensorGetWorkspaceSize,
        aclnnInplaceClampMinTensor,
        aclnnClampTensorGetWorkspaceSize,
        aclnnClampTensor,
        aclnnDivGetWorkspaceSize,
        aclnnDiv,
        aclnnInplaceDivGetWorkspaceSize,
        aclnnInplaceDiv,
        aclnnDivModGetWorkspaceSize,
        aclnnDivMod,
        aclnnInplaceDivModGetWorkspaceSize,
        aclnnInplaceDivMod,
        aclnnDivModsGetWorkspaceSize,
        aclnnDivMods,
        aclnnInplaceDivModsGetWorkspaceSize,
        aclnnInplaceDivMods,
        aclnnDivsGetWorkspaceSize,
        aclnnDivs,
        aclnnInplaceDivsGetWorkspaceSize,
        aclnnInplaceDivs,
        aclnnExpGetWorkspaceSize,
        aclnnExp,
        aclnnInplaceExpGetWorkspaceSize,
        aclnnInplaceExp,
        aclnnGtTensorGetWorkspaceSize,
        aclnnGtTensor,
        aclnnInplaceGtTensorGetWorkspaceSize,
        aclnnInplaceGtTensor,
        aclnnInplaceLogGetWorkspaceSize,
        aclnnInplaceLog,
        aclnnLogGetWorkspaceSize,
        aclnnLog,
        aclnnMaximumGetWorkspaceSize,
        aclnnMaximum,
        aclnnInplaceMulGetWorkspaceSize,
        aclnnInplaceMul,
        aclnnMulGetWorkspaceSize,
        aclnnMul,
        aclnnInplaceMulsGetWorkspaceSize,
        aclnnInplaceMuls,
        aclnnMulsGetWorkspaceSize,
        aclnnMuls,
        aclnnInplaceNegGetWorkspaceSize,
        aclnnInplaceNeg,
        aclnnNegGetWorkspaceSize,
        aclnnNeg,
        aclnnPowScalarTensorGetWorkspaceSize,
        aclnnPowScalarTensor,
        aclnnInplacePowTensorScalarGetWorkspaceSize,
        aclnnInplacePowTensorScalar,
        aclnnPowTensorScalarGetWorkspaceSize,
        aclnnPowTensorScalar,
        aclnnInplaceRsqrtGetWorkspaceSize,
        aclnnInplaceRsqrt,
        aclnnRsqrtGetWorkspaceSize,
        aclnnRsqrt,
        aclnnInplaceSqrtGetWorkspaceSize,
        aclnnInplaceSqrt,
        aclnnSqrtGetWorkspaceSize,
        aclnnSqrt,
        aclnnInplaceSubGetWorkspaceSize,
        aclnnInplaceSub,
        aclnnSubGetWorkspaceSize,
        aclnnSub,
        aclnnInplaceSubsGetWorkspaceSize,
        aclnnInplaceSubs,
        aclnnSubsGetWorkspaceSize,
        aclnnSubs,
    }
}
