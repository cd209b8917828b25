// Made from include/cann/activation.h by tests/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p cann-sys --test bindings

pub use super::types::*;

pub type aclnnSwiGluGetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensor,
    axis: i64,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSwiGlu = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSwiGluGradGetWorkspaceSize = unsafe extern "C" fn(
    y_grad: *const aclTensor,
    x: *const aclTensor,
    axis: i64,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSwiGluGrad = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSiluGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSilu = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSiluBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSiluBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGeluGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGelu = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnReluGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnRelu = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceReluGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceRelu = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSigmoidGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSigmoid = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceSigmoidGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceSigmoid = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnTanhGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnTanh = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceTanhGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceTanh = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSoftmaxGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSoftmax = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSoftmaxBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    forward_output: *const aclTensor,
    axis: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSoftmaxBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLogSoftmaxGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    axis: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLogSoftmax = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGeGluV3GetWorkspaceSize = unsafe extern "C" fn(
    x: *const aclTensor,
    axis: i64,
    approximation: i64,
    gate_first: bool,
    output: *mut aclTensor,
    gelu: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGeGluV3 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGeGluV3BackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    x: *const aclTensor,
    gelu: *const aclTensor,
    axis: i64,
    approximation: i64,
    gate_first: bool,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGeGluV3Backward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGeluV2GetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    approximation: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGeluV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLogSoftmaxBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    forward_output: *const aclTensor,
    axis: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLogSoftmaxBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;

crate::table::function_table! {
    /// The functions of `include/cann/activation.h`.
    Activation {
        aclnnSwiGluGetWorkspaceSize,
        aclnnSwiGlu,
        aclnnSwiGluGradGetWorkspaceSize,
        aclnnSwiGluGrad,
        aclnnSiluGetWorkspaceSize,
        aclnnSilu,
        aclnnSiluBackwardGetWorkspaceSize,
        aclnnSiluBackward,
        aclnnGeluGetWorkspaceSize,
        aclnnGelu,
        aclnnReluGetWorkspaceSize,
        aclnnRelu,
        aclnnInplaceReluGetWorkspaceSize,
        aclnnInplaceRelu,
        aclnnSigmoidGetWorkspaceSize,
        aclnnSigmoid,
        aclnnInplaceSigmoidGetWorkspaceSize,
        aclnnInplaceSigmoid,
        aclnnTanhGetWorkspaceSize,
        aclnnTanh,
        aclnnInplaceTanhGetWorkspaceSize,
        aclnnInplaceTanh,
        aclnnSoftmaxGetWorkspaceSize,
        aclnnSoftmax,
        aclnnSoftmaxBackwardGetWorkspaceSize,
        aclnnSoftmaxBackward,
        aclnnLogSoftmaxGetWorkspaceSize,
        aclnnLogSoftmax,
        aclnnGeGluV3GetWorkspaceSize,
        aclnnGeGluV3,
        aclnnGeGluV3BackwardGetWorkspaceSize,
        aclnnGeGluV3Backward,
        aclnnGeluV2GetWorkspaceSize,
        aclnnGeluV2,
        aclnnLogSoftmaxBackwardGetWorkspaceSize,
        aclnnLogSoftmaxBackward,
    }
}
