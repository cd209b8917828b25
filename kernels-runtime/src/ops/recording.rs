//! The names from Burn's autodiff that operations use to record their gradients.

pub(crate) use burn::backend::autodiff::{
    Autodiff, NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients as Grads,
    ops::{Backward as Step, Ops, OpsKind},
};

/// Registers the gradient of a parent if the parent is tracked. Burn's type of parents has no public name.
macro_rules! register {
    ($B:ident, $grads:ident, $parent:expr, $gradient:expr) => {
        if let (Some(parent), Some(gradient)) = ($parent, Option::from($gradient)) {
            $grads.register::<$B>(parent.id, gradient);
        }
    };
}
pub(crate) use register;
