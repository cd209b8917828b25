// Made from include/cann/activation.h by tests/bindings/bindings.rs. Don't edit: run
// UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings

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
pub type aclnnLeakyReluGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    slope: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLeakyRelu = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceLeakyReluGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    slope: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceLeakyRelu = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnEluGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    alpha: *const aclScalar,
    scale: *const aclScalar,
    input_scale: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnElu = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceEluGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    alpha: *const aclScalar,
    scale: *const aclScalar,
    input_scale: *const aclScalar,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceElu = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMishGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMish = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceMishGetWorkspaceSize = unsafe extern "C" fn(
    target: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceMish = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSoftplusGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    beta: *const aclScalar,
    threshold: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSoftplus = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnHardswishGetWorkspaceSize = unsafe extern "C" fn(
    input: *const aclTensor,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnHardswish = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnInplaceHardswishGetWorkspaceSize = unsafe extern "C" fn(
    target: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnInplaceHardswish = unsafe extern "C" fn(
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
pub type aclnnSigmoidBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    forward_output: *const aclTensor,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSigmoidBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnTanhBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    forward_output: *const aclTensor,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnTanhBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGeluBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGeluBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnGeluBackwardV2GetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    approximation: *mut ::std::os::raw::c_char,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnGeluBackwardV2 = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnHardswishBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnHardswishBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnThresholdBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    threshold: *const aclScalar,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnThresholdBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnLeakyReluBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    slope: *const aclScalar,
    input_is_result: bool,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnLeakyReluBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnSoftplusBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    beta: *const aclScalar,
    threshold: *const aclScalar,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnSoftplusBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnMishBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    input: *const aclTensor,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnMishBackward = unsafe extern "C" fn(
    workspace: *mut ::std::os::raw::c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> aclnnStatus;
pub type aclnnEluBackwardGetWorkspaceSize = unsafe extern "C" fn(
    d_output: *const aclTensor,
    alpha: *const aclScalar,
    scale: *const aclScalar,
    input_scale: *const aclScalar,
    input_is_result: bool,
    input: *const aclTensor,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus;
pub type aclnnEluBackward = unsafe extern "C" fn(
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
        aclnnLeakyReluGetWorkspaceSize,
        aclnnLeakyRelu,
        aclnnInplaceLeakyReluGetWorkspaceSize,
        aclnnInplaceLeakyRelu,
        aclnnEluGetWorkspaceSize,
        aclnnElu,
        aclnnInplaceEluGetWorkspaceSize,
        aclnnInplaceElu,
        aclnnMishGetWorkspaceSize,
        aclnnMish,
        aclnnInplaceMishGetWorkspaceSize,
        aclnnInplaceMish,
        aclnnSoftplusGetWorkspaceSize,
        aclnnSoftplus,
        aclnnHardswishGetWorkspaceSize,
        aclnnHardswish,
        aclnnInplaceHardswishGetWorkspaceSize,
        aclnnInplaceHardswish,
        aclnnLogSoftmaxBackwardGetWorkspaceSize,
        aclnnLogSoftmaxBackward,
        aclnnSigmoidBackwardGetWorkspaceSize,
        aclnnSigmoidBackward,
        aclnnTanhBackwardGetWorkspaceSize,
        aclnnTanhBackward,
        aclnnGeluBackwardGetWorkspaceSize,
        aclnnGeluBackward,
        aclnnGeluBackwardV2GetWorkspaceSize,
        aclnnGeluBackwardV2,
        aclnnHardswishBackwardGetWorkspaceSize,
        aclnnHardswishBackward,
        aclnnThresholdBackwardGetWorkspaceSize,
        aclnnThresholdBackward,
        aclnnLeakyReluBackwardGetWorkspaceSize,
        aclnnLeakyReluBackward,
        aclnnSoftplusBackwardGetWorkspaceSize,
        aclnnSoftplusBackward,
        aclnnMishBackwardGetWorkspaceSize,
        aclnnMishBackward,
        aclnnEluBackwardGetWorkspaceSize,
        aclnnEluBackward,
    }
}
