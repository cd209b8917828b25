use super::Operands;
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, Ops, Step, register,
};
use crate::ops::rms_norm::{RmsNormKernel, record};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

/// The operands of a call on a backend.
pub type Tensors<B> = Operands<FloatTensor<B>>;

/// A sum and its RMSNorm as an operation of a Burn backend.
#[backend_extension(Flex: cfg(feature = "cpu"), Remote: cfg(feature = "remote"), Autodiff)]
pub trait AddRmsNormBackend: Backend {
    /// The normalised sum and the sum, both like `x`.
    ///
    /// # Panics
    /// The tensors have different dtypes, or one that kernels don't take.
    fn add_rms_norm(
        #[extension_type] operands: Tensors<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

/// The results of a kernel.
#[derive(Clone, Debug)]
pub struct Normalised<T> {
    /// The normalised sum, like `x`.
    pub y: T,
    /// The sum, like `x`.
    pub sum: T,
    /// One value a row or group in f32 (f64 for f64).
    pub rstd: T,
}

/// A backend's kernel. The gradient is the norm's, at the sum.
pub trait AddRmsNormKernel: RmsNormKernel {
    /// The normalised sum, the sum, and `rstd`.
    ///
    /// # Panics
    /// The tensors have different dtypes, or one that kernels don't take.
    fn add_rms_norm_forward(operands: Tensors<Self>) -> Normalised<FloatTensor<Self>>;
}

/// The sum, whose gradient is that of each term.
#[derive(Debug)]
struct Sum;

impl<B: Backend> Step<B, 2> for Sum {
    type State = ();

    fn backward(self, ops: Ops<(), 2>, grads: &mut Grads, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let [x, residual] = ops.parents;
        register!(B, grads, x, gradient.clone());
        register!(B, grads, residual, gradient);
    }
}

impl<B: AddRmsNormKernel, C: CheckpointStrategy> AddRmsNormBackend for Autodiff<B, C> {
    /// Records two steps, the sum and its norm: Burn's autodiff gives an operation one output.
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
