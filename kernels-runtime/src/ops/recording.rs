//! The names from Burn's autodiff that operations use to record their gradients, and the spans of these.

mod registered;

pub(crate) use registered::{is_registered, remember};

use crate::dispatch::{Site, span};
use burn::backend::Backend;
use burn::backend::autodiff::checkpoint::{retro_forward::RetroForward, state::BackwardStates};
use burn::backend::tensor::FloatTensor;
use std::fmt;
use std::marker::PhantomData;

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

/// Works like [`register`], for a parent that several operations often take.
macro_rules! register_and_remember {
    ($B:ident, $grads:ident, $parent:expr, $gradient:expr) => {
        if let (Some(parent), Some(gradient)) = ($parent, Option::from($gradient)) {
            $grads.register::<$B>(parent.id, gradient);
            // A gradient of a leaf is not taken when it is consumed.
            if !parent.parents.is_empty() {
                $crate::ops::recording::remember(parent.id);
            }
        }
    };
}
pub(crate) use register_and_remember;

/// A kernel's step of autodiff, whose backward pass runs in a span of the site that recorded it.
#[derive(Debug)]
pub(crate) struct Traced<S> {
    step: S,
    kernel: &'static str,
    site: Option<&'static Site>,
}

/// Returns a step of a kernel with the site whose call this thread is in.
pub(crate) fn traced<S>(step: S, kernel: &'static str) -> Traced<S> {
    let site = span::site();
    Traced { step, kernel, site }
}

impl<B: Backend, S: Step<B, N>, const N: usize> Step<B, N> for Traced<S> {
    type State = S::State;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Grads,
        checkpointer: &mut Checkpointer,
    ) {
        let _span = span::gradient(self.kernel, self.site);
        self.step.backward(ops, grads, checkpointer);
    }
}

/// Computes a result a second time, in the backward pass of a graph with gradient checkpointing.
pub(crate) struct Recompute<B, F> {
    forward: F,
    backend: PhantomData<fn() -> B>,
}

/// Returns the computation of a result from the nodes of its operands. `forward` gets a function that reads a node, and
/// reads each operand once.
pub(crate) fn recompute<B, F>(forward: F) -> Recompute<B, F>
where
    B: Backend,
    F: Fn(&mut dyn FnMut(NodeId) -> FloatTensor<B>) -> FloatTensor<B> + Send + 'static,
{
    Recompute {
        forward,
        backend: PhantomData,
    }
}

impl<B, F> RetroForward for Recompute<B, F>
where
    B: Backend,
    F: Fn(&mut dyn FnMut(NodeId) -> FloatTensor<B>) -> FloatTensor<B> + Send + 'static,
{
    fn forward(&self, states: &mut BackwardStates, node: NodeId) {
        let result = (self.forward)(&mut |operand| states.get_state(&operand));
        states.save(node, result);
    }
}

impl<B, F> fmt::Debug for Recompute<B, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recompute")
    }
}
