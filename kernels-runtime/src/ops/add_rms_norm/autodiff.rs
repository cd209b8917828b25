use super::Operands;
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, Ops, Step, register_and_remember,
};
use crate::ops::rms_norm::{RmsNormKernel, record};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

/// The operands of a call as tensors of a backend.
pub type Tensors<B> = Operands<FloatTensor<B>>;

/// A sum and its RMSNorm as an operation of a Burn backend.
#[backend_extension(
    Flex: cfg(feature = "cpu"),
    Cube: cfg(feature = "gpu"),
    Remote: cfg(feature = "remote"),
    Autodiff,
)]
pub trait AddRmsNormBackend: Backend {
    /// Returns the normalised sum and the sum, both of the shape and dtype of `x`.
    ///
    /// # Panics
    /// Panics if the tensors have different dtypes, or a dtype that kernels don't take.
    fn add_rms_norm(
        #[extension_type] operands: Tensors<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

/// The results of a kernel.
#[derive(Clone, Debug)]
pub struct Normalised<T> {
    /// The normalised sum, with the shape and dtype of `x`.
    pub y: T,
    /// The sum, with the shape and dtype of `x`.
    pub sum: T,
    /// One value for each row or group, in f32 (f64 for f64 tensors).
    pub rstd: T,
}

/// The forward kernel of a backend. The gradient is RMSNorm's gradient at the sum.
pub trait AddRmsNormKernel: RmsNormKernel {
    /// Returns the normalised sum, the sum, and `rstd`.
    ///
    /// # Panics
    /// Panics if the tensors have different dtypes, or a dtype that kernels don't take.
    fn add_rms_norm_forward(operands: Tensors<Self>) -> Normalised<FloatTensor<Self>>;
}

/// The autodiff step of the sum. Each term gets the gradient of the sum.
#[derive(Debug)]
struct Sum;

impl<B: Backend> Step<B, 2> for Sum {
    type State = ();

    fn backward(self, ops: Ops<(), 2>, grads: &mut Grads, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let [x, residual] = ops.parents;
        register_and_remember!(B, grads, x, gradient.clone());
        register_and_remember!(B, grads, residual, gradient);
    }
}

impl<B: AddRmsNormKernel, C: CheckpointStrategy> AddRmsNormBackend for Autodiff<B, C> {
    /// Records two steps, the sum and its norm, because an operation of Burn's autodiff has one output.
    fn add_rms_norm(operands: Tensors<Self>) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let primitives = operands.as_ref().map(|tensor| tensor.primitive().clone());
        let Normalised { y, sum, rstd } = B::add_rms_norm_forward(primitives);
        let norm = operands.norm_of(|x, residual| {
            let nodes = [x.node(), residual.node()];
            Sum.prepare::<C>(nodes).compute_bound().stateless(sum)
        });
        let sum = norm.x().clone();
        (record::<B, C>(norm, |_| (y, rstd)), sum)
    }
}
