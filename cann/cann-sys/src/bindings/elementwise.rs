// Made from include/cann/elementwise.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

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
pub type aclnnMinimumGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMinimum = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnPowTensorTensorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnPowTensorTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplacePowTensorTensorGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    rhs: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplacePowTensorTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnRemainderTensorTensorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnRemainderTensorTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceRemainderTensorTensorGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceRemainderTensorTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnRemainderTensorScalarGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnRemainderTensorScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceRemainderTensorScalarGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceRemainderTensorScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnFmodTensorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnFmodTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceFmodTensorGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceFmodTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnFmodScalarGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnFmodScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceFmodScalarGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceFmodScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnBitwiseAndTensorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnBitwiseAndTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceBitwiseAndTensorGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    rhs: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceBitwiseAndTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnBitwiseAndScalarGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnBitwiseAndScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceBitwiseAndScalarGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    rhs: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceBitwiseAndScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnBitwiseOrTensorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnBitwiseOrTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceBitwiseOrTensorGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceBitwiseOrTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnBitwiseOrScalarGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnBitwiseOrScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceBitwiseOrScalarGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceBitwiseOrScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnBitwiseXorTensorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnBitwiseXorTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceBitwiseXorTensorGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceBitwiseXorTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnBitwiseXorScalarGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnBitwiseXorScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceBitwiseXorScalarGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceBitwiseXorScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnBitwiseNotGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnBitwiseNot = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLeftShiftGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    bits: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLeftShift = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnRightShiftGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    bits: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnRightShift = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLogicalAndGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLogicalAnd = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceLogicalAndGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceLogicalAnd = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLogicalOrGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLogicalOr = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceLogicalOrGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceLogicalOr = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLogicalXorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLogicalXor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLogicalNotGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLogicalNot = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceLogicalNotGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceLogicalNot = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnAbsGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAbs = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnCeilGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnCeil = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceCeilGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceCeil = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnCosGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnCos = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceCosGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceCos = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnErfGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnErf = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceErfGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceErf = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnExpm1GetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnExpm1 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceExpm1GetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceExpm1 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnFloorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnFloor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceFloorGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceFloor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnIsFiniteGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnIsFinite = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLog1pGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLog1p = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceLog1pGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceLog1p = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnReciprocalGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnReciprocal = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceReciprocalGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceReciprocal = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnRoundGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnRound = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceRoundGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceRound = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSignGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSign = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSinGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSin = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceSinGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceSin = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnTanGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnTan = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceTanGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceTan = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnTruncGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnTrunc = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceTruncGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceTrunc = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnEqTensorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnEqTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceEqTensorGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    rhs: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceEqTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnNeTensorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnNeTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceNeTensorGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceNeTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGeTensorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGeTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceGeTensorGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceGeTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLtTensorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLtTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceLtTensorGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    rhs: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceLtTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLeTensorGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLeTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceLeTensorGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceLeTensor = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnEqScalarGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnEqScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceEqScalarGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    rhs: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceEqScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnNeScalarGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnNeScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceNeScalarGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceNeScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGtScalarGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGtScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceGtScalarGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceGtScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGeScalarGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGeScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceGeScalarGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceGeScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLtScalarGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLtScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceLtScalarGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    rhs: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceLtScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLeScalarGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLeScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceLeScalarGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceLeScalar = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnAcosGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAcos = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceAcosGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceAcos = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnAcoshGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAcosh = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceAcoshGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceAcosh = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnAsinGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAsin = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceAsinGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceAsin = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnAsinhGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAsinh = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceAsinhGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceAsinh = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnAtanGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAtan = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceAtanGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceAtan = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnAtanhGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAtanh = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceAtanhGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceAtanh = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnCoshGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnCosh = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceCoshGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceCosh = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSinhGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSinh = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceSinhGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceSinh = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnAtan2GetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAtan2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceAtan2GetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceAtan2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnRsubGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    alpha: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnRsub = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnRsubsGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    alpha: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnRsubs = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnAddcmulGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    left: *const aclTensor,
    right: *const aclTensor,
    scale: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAddcmul = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceAddcmulGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    left: *const aclTensor,
    right: *const aclTensor,
    scale: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceAddcmul = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnAddcdivGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    left: *const aclTensor,
    right: *const aclTensor,
    scale: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnAddcdiv = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceAddcdivGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    left: *const aclTensor,
    right: *const aclTensor,
    scale: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceAddcdiv = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLerpsGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    end: *const aclTensor,
    weight: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLerps = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceLerpsGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    end: *const aclTensor,
    weight: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceLerps = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnFloorDivideGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnFloorDivide = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceFloorDivideGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceFloorDivide = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnFloorDividesGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnFloorDivides = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceFloorDividesGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    rhs: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceFloorDivides = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnEqualGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnEqual = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLog2GetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLog2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceLog2GetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceLog2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLog10GetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLog10 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceLog10GetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceLog10 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnExp2GetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnExp2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceExp2GetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceExp2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnNanToNumGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    nan: f32,
    positive_infinity: f32,
    negative_infinity: f32,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnNanToNum = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceNanToNumGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    nan: f32,
    positive_infinity: f32,
    negative_infinity: f32,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceNanToNum = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnIsCloseGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    rhs: *const aclTensor,
    relative: f64,
    absolute: f64,
    equal_nan: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnIsClose = unsafe extern "C" fn(
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
        aclnnMinimumGetWorkspaceSize,
        aclnnMinimum,
        aclnnPowTensorTensorGetWorkspaceSize,
        aclnnPowTensorTensor,
        aclnnInplacePowTensorTensorGetWorkspaceSize,
        aclnnInplacePowTensorTensor,
        aclnnRemainderTensorTensorGetWorkspaceSize,
        aclnnRemainderTensorTensor,
        aclnnInplaceRemainderTensorTensorGetWorkspaceSize,
        aclnnInplaceRemainderTensorTensor,
        aclnnRemainderTensorScalarGetWorkspaceSize,
        aclnnRemainderTensorScalar,
        aclnnInplaceRemainderTensorScalarGetWorkspaceSize,
        aclnnInplaceRemainderTensorScalar,
        aclnnFmodTensorGetWorkspaceSize,
        aclnnFmodTensor,
        aclnnInplaceFmodTensorGetWorkspaceSize,
        aclnnInplaceFmodTensor,
        aclnnFmodScalarGetWorkspaceSize,
        aclnnFmodScalar,
        aclnnInplaceFmodScalarGetWorkspaceSize,
        aclnnInplaceFmodScalar,
        aclnnBitwiseAndTensorGetWorkspaceSize,
        aclnnBitwiseAndTensor,
        aclnnInplaceBitwiseAndTensorGetWorkspaceSize,
        aclnnInplaceBitwiseAndTensor,
        aclnnBitwiseAndScalarGetWorkspaceSize,
        aclnnBitwiseAndScalar,
        aclnnInplaceBitwiseAndScalarGetWorkspaceSize,
        aclnnInplaceBitwiseAndScalar,
        aclnnBitwiseOrTensorGetWorkspaceSize,
        aclnnBitwiseOrTensor,
        aclnnInplaceBitwiseOrTensorGetWorkspaceSize,
        aclnnInplaceBitwiseOrTensor,
        aclnnBitwiseOrScalarGetWorkspaceSize,
        aclnnBitwiseOrScalar,
        aclnnInplaceBitwiseOrScalarGetWorkspaceSize,
        aclnnInplaceBitwiseOrScalar,
        aclnnBitwiseXorTensorGetWorkspaceSize,
        aclnnBitwiseXorTensor,
        aclnnInplaceBitwiseXorTensorGetWorkspaceSize,
        aclnnInplaceBitwiseXorTensor,
        aclnnBitwiseXorScalarGetWorkspaceSize,
        aclnnBitwiseXorScalar,
        aclnnInplaceBitwiseXorScalarGetWorkspaceSize,
        aclnnInplaceBitwiseXorScalar,
        aclnnBitwiseNotGetWorkspaceSize,
        aclnnBitwiseNot,
        aclnnLeftShiftGetWorkspaceSize,
        aclnnLeftShift,
        aclnnRightShiftGetWorkspaceSize,
        aclnnRightShift,
        aclnnLogicalAndGetWorkspaceSize,
        aclnnLogicalAnd,
        aclnnInplaceLogicalAndGetWorkspaceSize,
        aclnnInplaceLogicalAnd,
        aclnnLogicalOrGetWorkspaceSize,
        aclnnLogicalOr,
        aclnnInplaceLogicalOrGetWorkspaceSize,
        aclnnInplaceLogicalOr,
        aclnnLogicalXorGetWorkspaceSize,
        aclnnLogicalXor,
        aclnnLogicalNotGetWorkspaceSize,
        aclnnLogicalNot,
        aclnnInplaceLogicalNotGetWorkspaceSize,
        aclnnInplaceLogicalNot,
        aclnnAbsGetWorkspaceSize,
        aclnnAbs,
        aclnnCeilGetWorkspaceSize,
        aclnnCeil,
        aclnnInplaceCeilGetWorkspaceSize,
        aclnnInplaceCeil,
        aclnnCosGetWorkspaceSize,
        aclnnCos,
        aclnnInplaceCosGetWorkspaceSize,
        aclnnInplaceCos,
        aclnnErfGetWorkspaceSize,
        aclnnErf,
        aclnnInplaceErfGetWorkspaceSize,
        aclnnInplaceErf,
        aclnnExpm1GetWorkspaceSize,
        aclnnExpm1,
        aclnnInplaceExpm1GetWorkspaceSize,
        aclnnInplaceExpm1,
        aclnnFloorGetWorkspaceSize,
        aclnnFloor,
        aclnnInplaceFloorGetWorkspaceSize,
        aclnnInplaceFloor,
        aclnnIsFiniteGetWorkspaceSize,
        aclnnIsFinite,
        aclnnLog1pGetWorkspaceSize,
        aclnnLog1p,
        aclnnInplaceLog1pGetWorkspaceSize,
        aclnnInplaceLog1p,
        aclnnReciprocalGetWorkspaceSize,
        aclnnReciprocal,
        aclnnInplaceReciprocalGetWorkspaceSize,
        aclnnInplaceReciprocal,
        aclnnRoundGetWorkspaceSize,
        aclnnRound,
        aclnnInplaceRoundGetWorkspaceSize,
        aclnnInplaceRound,
        aclnnSignGetWorkspaceSize,
        aclnnSign,
        aclnnSinGetWorkspaceSize,
        aclnnSin,
        aclnnInplaceSinGetWorkspaceSize,
        aclnnInplaceSin,
        aclnnTanGetWorkspaceSize,
        aclnnTan,
        aclnnInplaceTanGetWorkspaceSize,
        aclnnInplaceTan,
        aclnnTruncGetWorkspaceSize,
        aclnnTrunc,
        aclnnInplaceTruncGetWorkspaceSize,
        aclnnInplaceTrunc,
        aclnnEqTensorGetWorkspaceSize,
        aclnnEqTensor,
        aclnnInplaceEqTensorGetWorkspaceSize,
        aclnnInplaceEqTensor,
        aclnnNeTensorGetWorkspaceSize,
        aclnnNeTensor,
        aclnnInplaceNeTensorGetWorkspaceSize,
        aclnnInplaceNeTensor,
        aclnnGeTensorGetWorkspaceSize,
        aclnnGeTensor,
        aclnnInplaceGeTensorGetWorkspaceSize,
        aclnnInplaceGeTensor,
        aclnnLtTensorGetWorkspaceSize,
        aclnnLtTensor,
        aclnnInplaceLtTensorGetWorkspaceSize,
        aclnnInplaceLtTensor,
        aclnnLeTensorGetWorkspaceSize,
        aclnnLeTensor,
        aclnnInplaceLeTensorGetWorkspaceSize,
        aclnnInplaceLeTensor,
        aclnnEqScalarGetWorkspaceSize,
        aclnnEqScalar,
        aclnnInplaceEqScalarGetWorkspaceSize,
        aclnnInplaceEqScalar,
        aclnnNeScalarGetWorkspaceSize,
        aclnnNeScalar,
        aclnnInplaceNeScalarGetWorkspaceSize,
        aclnnInplaceNeScalar,
        aclnnGtScalarGetWorkspaceSize,
        aclnnGtScalar,
        aclnnInplaceGtScalarGetWorkspaceSize,
        aclnnInplaceGtScalar,
        aclnnGeScalarGetWorkspaceSize,
        aclnnGeScalar,
        aclnnInplaceGeScalarGetWorkspaceSize,
        aclnnInplaceGeScalar,
        aclnnLtScalarGetWorkspaceSize,
        aclnnLtScalar,
        aclnnInplaceLtScalarGetWorkspaceSize,
        aclnnInplaceLtScalar,
        aclnnLeScalarGetWorkspaceSize,
        aclnnLeScalar,
        aclnnInplaceLeScalarGetWorkspaceSize,
        aclnnInplaceLeScalar,
        aclnnAcosGetWorkspaceSize,
        aclnnAcos,
        aclnnInplaceAcosGetWorkspaceSize,
        aclnnInplaceAcos,
        aclnnAcoshGetWorkspaceSize,
        aclnnAcosh,
        aclnnInplaceAcoshGetWorkspaceSize,
        aclnnInplaceAcosh,
        aclnnAsinGetWorkspaceSize,
        aclnnAsin,
        aclnnInplaceAsinGetWorkspaceSize,
        aclnnInplaceAsin,
        aclnnAsinhGetWorkspaceSize,
        aclnnAsinh,
        aclnnInplaceAsinhGetWorkspaceSize,
        aclnnInplaceAsinh,
        aclnnAtanGetWorkspaceSize,
        aclnnAtan,
        aclnnInplaceAtanGetWorkspaceSize,
        aclnnInplaceAtan,
        aclnnAtanhGetWorkspaceSize,
        aclnnAtanh,
        aclnnInplaceAtanhGetWorkspaceSize,
        aclnnInplaceAtanh,
        aclnnCoshGetWorkspaceSize,
        aclnnCosh,
        aclnnInplaceCoshGetWorkspaceSize,
        aclnnInplaceCosh,
        aclnnSinhGetWorkspaceSize,
        aclnnSinh,
        aclnnInplaceSinhGetWorkspaceSize,
        aclnnInplaceSinh,
        aclnnAtan2GetWorkspaceSize,
        aclnnAtan2,
        aclnnInplaceAtan2GetWorkspaceSize,
        aclnnInplaceAtan2,
        aclnnRsubGetWorkspaceSize,
        aclnnRsub,
        aclnnRsubsGetWorkspaceSize,
        aclnnRsubs,
        aclnnAddcmulGetWorkspaceSize,
        aclnnAddcmul,
        aclnnInplaceAddcmulGetWorkspaceSize,
        aclnnInplaceAddcmul,
        aclnnAddcdivGetWorkspaceSize,
        aclnnAddcdiv,
        aclnnInplaceAddcdivGetWorkspaceSize,
        aclnnInplaceAddcdiv,
        aclnnLerpsGetWorkspaceSize,
        aclnnLerps,
        aclnnInplaceLerpsGetWorkspaceSize,
        aclnnInplaceLerps,
        aclnnFloorDivideGetWorkspaceSize,
        aclnnFloorDivide,
        aclnnInplaceFloorDivideGetWorkspaceSize,
        aclnnInplaceFloorDivide,
        aclnnFloorDividesGetWorkspaceSize,
        aclnnFloorDivides,
        aclnnInplaceFloorDividesGetWorkspaceSize,
        aclnnInplaceFloorDivides,
        aclnnEqualGetWorkspaceSize,
        aclnnEqual,
        aclnnLog2GetWorkspaceSize,
        aclnnLog2,
        aclnnInplaceLog2GetWorkspaceSize,
        aclnnInplaceLog2,
        aclnnLog10GetWorkspaceSize,
        aclnnLog10,
        aclnnInplaceLog10GetWorkspaceSize,
        aclnnInplaceLog10,
        aclnnExp2GetWorkspaceSize,
        aclnnExp2,
        aclnnInplaceExp2GetWorkspaceSize,
        aclnnInplaceExp2,
        aclnnNanToNumGetWorkspaceSize,
        aclnnNanToNum,
        aclnnInplaceNanToNumGetWorkspaceSize,
        aclnnInplaceNanToNum,
        aclnnIsCloseGetWorkspaceSize,
        aclnnIsClose,
    }
}
