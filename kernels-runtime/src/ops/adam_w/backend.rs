use super::{Call, Settings, State};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, DispatchTensor, backend_extension};

/// A step of AdamW as an operation of a Burn backend.
#[backend_extension(Flex: cfg(feature = "cpu"), Remote: cfg(feature = "remote"))]
pub trait AdamWBackend: Backend {
    /// The parameter and its two moments after the step. All tensors are of one shape and dtype.
    fn adam_w(
        parameter: FloatTensor<Self>,
        moment_1: FloatTensor<Self>,
        moment_2: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        settings: Settings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

/// Runs the kernel. Dispatch has found one for these tensors.
pub(crate) fn launch(call: Call) -> State<DispatchTensor> {
    let State {
        parameter,
        moment_1,
        moment_2,
    } = call.state;
    let (parameter, moment_1, moment_2) = <Dispatch as AdamWBackend>::adam_w(
        parameter,
        moment_1,
        moment_2,
        call.gradient,
        call.settings,
    );
    State {
        parameter,
        moment_1,
        moment_2,
    }
}
