//! Several results of one operation that have gradients.
//!
//! A step of Burn's autodiff has one result. So the step of such an operation is that of a joint node, which nothing
//! reads, and each result has a step of its own, whose only parent is the joint node. It keeps the gradient of its
//! result for the joint step, which runs after all of them.

use super::{Like, Made};
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, Ops, OpsKind, Step,
};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Shape, TensorMetadata};
use burn::tensor::FloatDType;
use smallvec::SmallVec;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The gradients of the results, as far as the backward pass has come to them.
pub(super) struct Results<B: Backend>(Arc<Mutex<Vec<Option<FloatTensor<B>>>>>);

impl<B: Backend> Clone for Results<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: Backend> fmt::Debug for Results<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the gradients of results")
    }
}

impl<B: Backend> Results<B> {
    pub(super) fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new(vec![None; count])))
    }

    /// Records a step for each result. `joint` records that of the joint node, whose tensor it gets.
    pub(super) fn of<C: CheckpointStrategy>(
        &self,
        made: Made<FloatTensor<B>, IntTensor<B>>,
        joint: impl FnOnce(FloatTensor<B>) -> FloatTensor<Autodiff<B, C>>,
    ) -> Made<FloatTensor<Autodiff<B, C>>, IntTensor<B>> {
        let joint = joint(nothing::<B>(&made.y));
        let mut place = 0;
        made.map(
            |tensor| {
                let state = (self.clone(), place);
                place += 1;
                match OfResult
                    .prepare::<C>([joint.node()])
                    .compute_bound()
                    .stateful()
                {
                    OpsKind::Tracked(prep) => prep.finish(state, tensor),
                    OpsKind::UnTracked(prep) => prep.finish(tensor),
                }
            },
            |ints| ints,
        )
    }

    /// Returns the gradients. One of a result that nothing depends on is zero. `joint` is on their device.
    pub(super) fn gradients(
        &self,
        results: impl IntoIterator<Item = Like>,
        joint: &FloatTensor<B>,
    ) -> SmallVec<[FloatTensor<B>; 1]> {
        let device = joint.device();
        let mut gradients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let each = gradients.iter_mut().map(Option::take).zip(results);
        each.map(|(gradient, (shape, dtype))| {
            gradient.unwrap_or_else(|| B::float_zeros(shape, &device, FloatDType::from(dtype)))
        })
        .collect()
    }
}

/// Returns the tensor of a joint node, or its gradient, on the device of another tensor. It has an element, as those
/// of joined operands, and one dtype, because results may have several.
fn nothing<B: Backend>(on: &FloatTensor<B>) -> FloatTensor<B> {
    B::float_zeros(Shape::new([1]), &on.device(), FloatDType::F32)
}

/// The step of one result.
#[derive(Debug)]
struct OfResult;

impl<B: Backend> Step<B, 1> for OfResult {
    /// Where the gradient is kept.
    type State = (Results<B>, usize);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Grads, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let (Results(gradients), place) = ops.state;
        let [joint] = ops.parents;
        if let Some(joint) = joint {
            grads.register::<B>(joint.id, nothing::<B>(&gradient));
            let mut gradients = gradients.lock().unwrap_or_else(PoisonError::into_inner);
            gradients[place] = Some(gradient);
        }
    }
}
