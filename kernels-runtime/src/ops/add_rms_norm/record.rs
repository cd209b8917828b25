//! The two steps of autodiff: the sum, and RMSNorm's of the sum. A step of Burn's autodiff has one result, but both results
//! here have gradients.

use super::AddRmsNorm;
use crate::ops::fused::record::{Record, Tracked, record};
use crate::ops::fused::{FusedKernel, FusedOp, Internal, Made, MadeOn};
use crate::ops::operands::array;
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, Ops, Step, register_and_remember,
};
use crate::ops::rms_norm::RmsNorm;
use burn::backend::Backend;
use burn::backend::tensor::FloatTensor;

/// The sum and its norm.
pub(super) struct TwoSteps;

impl<B> Record<AddRmsNorm, B> for TwoSteps
where
    B: FusedKernel<AddRmsNorm> + FusedKernel<RmsNorm>,
{
    fn record<C: CheckpointStrategy>(parts: Tracked<AddRmsNorm, B, C>) -> MadeOn<Autodiff<B, C>> {
        let is_tracked = |tensor: &FloatTensor<Autodiff<B, C>>| tensor.is_tracked();
        let flags = || AddRmsNorm::each(parts.floats.iter().map(is_tracked), &parts.lengths);
        let wanted = parts.floats.iter().any(is_tracked).then(flags);
        let operands = AddRmsNorm::from_parts(parts, Internal(()));
        let primitives = operands.as_ref().map(|tensor| tensor.primitive().clone());
        let made = <B as FusedKernel<AddRmsNorm>>::forward(primitives, wanted.as_ref());
        let (y, [sum], saved) = (made.y, array(made.others), made.saved);
        let norm = operands.norm_of(|x, residual| {
            let nodes = [x.node(), residual.node()];
            Sum.prepare::<C>(nodes).compute_bound().stateless(sum)
        });
        let sum = norm.x().clone();
        let parts = RmsNorm::into_parts(norm);
        record::<RmsNorm, B, C>(parts, |_, _| Made::new(y).saving(saved)).and([sum])
    }
}

/// The step of the sum. Each term gets the gradient of the sum.
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
