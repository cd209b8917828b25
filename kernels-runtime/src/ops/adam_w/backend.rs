use super::{Operands, State};
use crate::ops::define::extension_type;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, DispatchTensor, backend_extension};

/// The operands of a step on a backend.
pub type Tensors<B> = Operands<FloatTensor<B>>;

/// A step of AdamW as an operation of a Burn backend.
#[backend_extension(Flex: cfg(feature = "cpu"), Remote: cfg(feature = "remote"))]
pub trait AdamWBackend: Backend {
    /// The parameter and its two moments after the step.
    ///
    /// # Panics
    /// The tensors have different dtypes, or one that kernels don't take.
    fn adam_w(
        #[extension_type] operands: Tensors<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

extension_type!(Operands);

/// Runs the kernel. Dispatch has found one for these tensors.
pub(crate) fn launch(operands: Operands<DispatchTensor>) -> State<DispatchTensor> {
    let (parameter, moment_1, moment_2) = <Dispatch as AdamWBackend>::adam_w(operands);
    State {
        parameter,
        moment_1,
        moment_2,
    }
}
