//! Backward passes that begin with given gradients, as those of a layer in a model do.
//!
//! Burn's own `backward` begins with ones. A loss `(y · dy).sum()` would hand on `dy`, but its products and sums would be
//! measured, too; the rows `product_sum` tell how long they take.

use burn::backend::autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::ops::FloatTensorOps;
use burn::backend::{Backend, Dispatch, Shape, backend_extension, flex::Flex, tensor::FloatTensor};
use burn::tensor::{FloatDType, Tensor};
use burn_kernels::__private::remember_gradient;

/// Returns a zero whose gradient passes `dy` on to `y`.
pub fn seed<const D: usize>(y: Tensor<D>, dy: Tensor<D>) -> Tensor<1> {
    Tensor::from_dispatch(Dispatch::begin_with(y.into_dispatch(), dy.into_dispatch()))
}

#[backend_extension(Flex, Autodiff)]
pub trait Seeded: Backend {
    fn begin_with(y: FloatTensor<Self>, dy: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl Seeded for Flex {
    fn begin_with(_y: FloatTensor<Self>, _dy: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_zeros(Shape::new([1]), &Default::default(), FloatDType::F32)
    }
}

#[derive(Debug)]
struct Seed;

impl<B: Backend> Backward<B, 1> for Seed {
    /// The gradient that is handed on.
    type State = FloatTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let _ones = grads.consume::<B>(&ops.node);
        let [parent] = ops.parents;
        if let Some(parent) = parent {
            grads.register::<B>(parent.id, ops.state);
            // Operations that take a tensor beside a kernel are kernels, too: in a decoder layer, the next sum takes this one.
            if !parent.parents.is_empty() {
                remember_gradient(parent.id);
            }
        }
    }
}

impl<B: Seeded, C: CheckpointStrategy> Seeded for Autodiff<B, C> {
    fn begin_with(y: FloatTensor<Self>, dy: FloatTensor<Self>) -> FloatTensor<Self> {
        let (node, dy) = (y.node(), dy.into_primitive());
        let zero = B::begin_with(y.into_primitive(), dy.clone());
        match Seed.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish(dy, zero),
            OpsKind::UnTracked(prepared) => prepared.finish(zero),
        }
    }
}
