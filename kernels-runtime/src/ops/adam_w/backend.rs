use super::Operands;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

/// The operands of a step as tensors of a backend.
pub type Tensors<B> = Operands<FloatTensor<B>>;

/// A step of AdamW as an operation of a Burn backend.
#[backend_extension(
    Flex: cfg(feature = "cpu"),
    Cube: cfg(feature = "gpu"),
    Remote: cfg(feature = "remote"),
)]
pub trait AdamWBackend: Backend {
    /// Returns the parameter and its two moments after the step.
    ///
    /// # Panics
    /// Panics if the tensors have different dtypes, or a dtype that kernels don't take.
    fn adam_w(
        #[extension_type] operands: Tensors<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}
