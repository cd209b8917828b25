//! The autodiff step of every fused operation.

use super::results::Results;
use super::{
    Backward, FusedKernel, FusedOp, Given, Internal, Made, MadeOn, Parts, Tensors, parts_of,
};
use crate::ops::joined::{join, register_joined};
use crate::ops::operands::{array, checked};
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, NodeId, Ops, OpsKind, Step, is_registered,
    recompute, remember, traced,
};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{AutodiffBackend, Backend};
use smallvec::SmallVec;
use std::fmt;
use std::marker::PhantomData;

/// The operands of a call with autodiff.
pub(crate) type Tracked<O, B, C> =
    Parts<FloatTensor<Autodiff<B, C>>, IntTensor<B>, <O as FusedOp>::Numbers>;

/// The steps of autodiff that an operation records on a backend.
pub(crate) trait Record<O: FusedOp, B: FusedKernel<O>> {
    /// Runs the forward pass and records its gradients.
    fn record<C: CheckpointStrategy>(parts: Tracked<O, B, C>) -> MadeOn<Autodiff<B, C>>;
}

/// One step, that of the first result.
pub(crate) struct OneStep;

impl<O: FusedOp, B: FusedKernel<O>> Record<O, B> for OneStep {
    fn record<C: CheckpointStrategy>(parts: Tracked<O, B, C>) -> MadeOn<Autodiff<B, C>> {
        record::<O, B, C>(parts, B::forward)
    }
}

/// Runs a forward pass and records its gradient.
pub(crate) fn record<O: FusedOp, B: FusedKernel<O>, C: CheckpointStrategy>(
    parts: Tracked<O, B, C>,
    forward: impl FnOnce(Tensors<O, B>, Option<&O::Each<bool>>) -> MadeOn<B>,
) -> Made<FloatTensor<Autodiff<B, C>>, IntTensor<B>> {
    assert!(
        O::HAS_GRADIENT,
        "{} has no gradient, but a tensor has autodiff enabled",
        O::TITLE
    );
    let kinds = parts_of(O::KINDS, &parts.lengths);
    let of_kind = |list: bool| {
        let kinds = kinds.iter().zip(&parts.floats);
        kinds
            .filter(move |(kind, _)| kind.is_list() == list)
            .map(|(_, tensor)| tensor)
    };
    let joined = of_kind(true).next().map(|_| join::<B, C>(of_kind(true)));
    let parents: SmallVec<[_; 5]> = of_kind(false).chain(&joined).map(|of| of.node()).collect();
    match parents.len() {
        1 => record_of::<O, B, C, 1>(array(parents), parts, forward),
        2 => record_of::<O, B, C, 2>(array(parents), parts, forward),
        3 => record_of::<O, B, C, 3>(array(parents), parts, forward),
        4 => record_of::<O, B, C, 4>(array(parents), parts, forward),
        5 => record_of::<O, B, C, 5>(array(parents), parts, forward),
        6 => record_of::<O, B, C, 6>(array(parents), parts, forward),
        7 => record_of::<O, B, C, 7>(array(parents), parts, forward),
        // A tensor that is left out would silently have no gradient.
        others => panic!(
            "{}: {others} tensors with gradients; 1 to 7 are supported",
            O::TITLE
        ),
    }
}

fn record_of<O: FusedOp, B: FusedKernel<O>, C: CheckpointStrategy, const N: usize>(
    nodes: [burn::backend::autodiff::ops::NodeGuard; N],
    parts: Tracked<O, B, C>,
    forward: impl FnOnce(Tensors<O, B>, Option<&O::Each<bool>>) -> MadeOn<B>,
) -> Made<FloatTensor<Autodiff<B, C>>, IntTensor<B>> {
    let prepared = traced(Recorded::<O>(PhantomData), O::KERNEL).prepare::<C>(nodes);
    let prepared = match O::RECOMPUTED {
        true => {
            let ids = Parts {
                floats: parts.floats.iter().map(|tensor| tensor.id()).collect(),
                ints: parts.ints.clone(),
                lengths: parts.lengths.clone(),
                numbers: parts.numbers.clone(),
            };
            let again = recompute::<B, _>(move |read| {
                let operands = ids.clone().map(read, |ints| ints);
                B::forward(O::from_parts(operands, Internal(())), None).y
            });
            let prepared = prepared.memory_bound().retro_forward(again);
            prepared.parents(&parts.floats)
        }
        false => prepared.compute_bound(),
    };
    match prepared.stateful() {
        OpsKind::Tracked(mut prep) => {
            let tracked: SmallVec<[bool; 5]> = parts
                .floats
                .iter()
                .map(|tensor| tensor.is_tracked())
                .collect();
            let wanted = O::each(tracked.iter().copied(), &parts.lengths);
            let kept = parts.floats.iter().enumerate();
            let kept =
                kept.map(|(at, tensor)| O::keeps(at, &wanted).then(|| prep.checkpoint(tensor)));
            let kept = kept.collect();
            let nodes = parts.floats.iter().map(|tensor| tensor.id()).collect();
            let primitives = parts.map(|tensor| tensor.into_primitive(), |ints| ints);
            let mut state = State {
                kept,
                nodes,
                tracked,
                ints: primitives.ints.clone(),
                lengths: primitives.lengths.clone(),
                numbers: primitives.numbers.clone(),
                saved: SmallVec::new(),
                made: SmallVec::new(),
                results: O::DIFFERENTIABLE.then(|| Results::new(1 + O::OTHERS)),
            };
            let mut made = forward(O::from_parts(primitives, Internal(())), Some(&wanted));
            state.saved = std::mem::take(&mut made.saved);
            state.made.clone_from(&made.ints);
            match state.results.clone() {
                Some(results) => results.of::<C>(made, |nothing| prep.finish(state, nothing)),
                None => Made {
                    y: prep.finish(state, made.y),
                    others: constants::<B, C>(made.others),
                    ints: made.ints,
                    saved: SmallVec::new(),
                },
            }
        }
        OpsKind::UnTracked(prep) => {
            let primitives = parts.map(|tensor| tensor.into_primitive(), |ints| ints);
            let made = forward(O::from_parts(primitives, Internal(())), None);
            Made {
                y: prep.finish(made.y),
                others: constants::<B, C>(made.others),
                ints: made.ints,
                saved: SmallVec::new(),
            }
        }
    }
}

/// Returns results that have no gradient.
fn constants<B: Backend, C: CheckpointStrategy>(
    tensors: SmallVec<[FloatTensor<B>; 2]>,
) -> SmallVec<[FloatTensor<Autodiff<B, C>>; 2]> {
    let tensors = tensors.into_iter();
    tensors
        .map(<Autodiff<B, C> as AutodiffBackend>::from_inner)
        .collect()
}

/// The step.
struct Recorded<O>(PhantomData<fn() -> O>);

impl<O: FusedOp> fmt::Debug for Recorded<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(O::TITLE)
    }
}

/// The state that the backward pass needs.
struct State<O: FusedOp, B: Backend> {
    /// The float tensors, but those that are not read.
    kept: SmallVec<[Option<NodeId>; 5]>,
    /// The nodes of the float tensors.
    nodes: SmallVec<[NodeId; 5]>,
    tracked: SmallVec<[bool; 5]>,
    ints: SmallVec<[IntTensor<B>; 2]>,
    lengths: SmallVec<[usize; 4]>,
    numbers: O::Numbers,
    saved: SmallVec<[FloatTensor<B>; 2]>,
    made: SmallVec<[IntTensor<B>; 1]>,
    /// The gradients of the results, if several have gradients. The step is then that of a joint node.
    results: Option<Results<B>>,
}

impl<O: FusedOp, B: Backend> Clone for State<O, B> {
    fn clone(&self) -> Self {
        Self {
            kept: self.kept.clone(),
            nodes: self.nodes.clone(),
            tracked: self.tracked.clone(),
            ints: self.ints.clone(),
            lengths: self.lengths.clone(),
            numbers: self.numbers.clone(),
            saved: self.saved.clone(),
            made: self.made.clone(),
            results: self.results.clone(),
        }
    }
}

impl<O: FusedOp, B: Backend> fmt::Debug for State<O, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the state of {}", O::TITLE)
    }
}

impl<O: FusedOp, B: Backend> State<O, B> {
    /// Returns the operands, with `dy` in the place of those that were not kept. Takes the integers out of the state, so that a
    /// kernel has their only handle.
    fn take_operands(
        &mut self,
        dy: &FloatTensor<B>,
        mut read: impl FnMut(NodeId) -> FloatTensor<B>,
    ) -> Tensors<O, B> {
        let floats = self.kept.iter();
        let floats = floats.map(|kept| kept.map_or_else(|| dy.clone(), &mut read));
        let parts = Parts {
            floats: floats.collect(),
            ints: std::mem::take(&mut self.ints),
            lengths: self.lengths.clone(),
            numbers: self.numbers.clone(),
        };
        O::from_parts(parts, Internal(()))
    }
}

impl<O: FusedOp, B: FusedKernel<O>, const N: usize> Step<B, N> for Recorded<O> {
    type State = State<O, B>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Grads,
        checkpointer: &mut Checkpointer,
    ) {
        let mut state = ops.state;
        let own = grads.consume::<B>(&ops.node);
        let results = state.results.take();
        let kinds = parts_of(O::KINDS, &state.lengths);
        let before = match (&ops.parents[0], O::ADDS) {
            (Some(first), true) if is_registered(first.id) => Some(grads.consume::<B>(first)),
            _ => None,
        };
        // A gradient of a leaf is not taken when it is consumed.
        let is_remembered =
            O::ADDS && matches!(&ops.parents[0], Some(first) if !first.parents.is_empty());
        let joint = kinds.iter().any(|kind| kind.is_list());
        let joint = joint.then(|| ops.parents.last().and_then(Option::as_ref));
        let joint = joint.flatten().map(|node| node.id);
        let operands = state.take_operands(&own, |id| checkpointer.retrieve_node_output(id));
        // Nothing else holds the gradient while a kernel may reuse its memory.
        let like = joint.map(|_| own.clone());
        let mut gradients: SmallVec<[_; 1]> = match results {
            None => SmallVec::from_iter([own]),
            Some(results) => results.gradients(O::results(&operands), &own),
        };
        let given = Given {
            dy: gradients.remove(0),
            others: gradients,
            saved: state.saved,
            ints: state.made,
        };
        let backward = checked(Backward::<O, _, _>::new(operands, given, &state.tracked));
        let gradients = match before {
            Some(before) => B::backward_added(backward, before),
            None => B::backward(backward),
        };
        let gradients = O::values(gradients, &state.lengths);
        let mut listed = SmallVec::<[_; 5]>::new();
        let each = gradients.into_iter().zip(state.nodes).zip(state.tracked);
        for (at, (((gradient, node), tracked), kind)) in each.zip(&kinds).enumerate() {
            if kind.is_list() {
                listed.push((node, gradient.filter(|_| tracked)));
            } else if let (true, Some(gradient)) = (tracked, gradient) {
                grads.register::<B>(node, gradient);
                if at == 0 && is_remembered {
                    remember(node);
                }
            }
        }
        if let Some(like) = like {
            let (nodes, gradients): (Vec<_>, Vec<_>) = listed.into_iter().unzip();
            register_joined::<B>(grads, joint, nodes, gradients, &like);
        }
    }
}
