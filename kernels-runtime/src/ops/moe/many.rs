//! As many tensors as experts.

use crate::ops::operands::Facts;
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

/// A tensor for each expert.
#[allow(clippy::large_enum_variant)] // A few a call: a box would cost more than it saves.
#[derive(Clone, Debug)]
pub enum Stack<const STACKED: usize, const SINGLE: usize> {
    /// All in one, experts along the first axis.
    Stacked(Tensor<STACKED>),
    /// One each.
    List(Vec<Tensor<SINGLE>>),
}

impl<const STACKED: usize, const SINGLE: usize> Stack<STACKED, SINGLE> {
    /// The tensor of one expert.
    ///
    /// # Panics
    /// There is no such expert.
    pub fn expert(&self, expert: usize) -> Tensor<SINGLE> {
        match self {
            Self::Stacked(tensor) => tensor
                .clone()
                .slice_dim(0, expert..expert + 1)
                .squeeze_dim(0),
            Self::List(tensors) => tensors[expert].clone(),
        }
    }

    /// The tensors of some experts, in this order. Those of a list stay what they are; of stacked
    /// ones they are a copy that is cut off from their graph.
    pub(crate) fn of_experts(&self, experts: &[usize]) -> Self {
        match self {
            Self::Stacked(tensor) => {
                let tensor = tensor.clone().detach();
                let each = experts.iter().map(|e| tensor.clone().narrow(0, *e, 1));
                Self::Stacked(Tensor::cat(each.collect(), 0))
            }
            Self::List(tensors) => {
                Self::List(experts.iter().map(|e| tensors[*e].clone()).collect())
            }
        }
    }

    /// The number of experts.
    pub(super) fn experts(&self) -> usize {
        match self {
            Self::Stacked(tensor) => tensor.dims()[0],
            Self::List(tensors) => tensors.len(),
        }
    }

    /// Describes the tensors.
    pub(super) fn facts(&self) -> Vec<Facts> {
        match self {
            Self::Stacked(tensor) => vec![tensor.into()],
            Self::List(tensors) => tensors.iter().map(Facts::from).collect(),
        }
    }

    /// The tensors, one if they are stacked.
    pub(super) fn into_dispatch(self) -> Vec<DispatchTensor> {
        match self {
            Self::Stacked(tensor) => vec![tensor.into_dispatch()],
            Self::List(tensors) => tensors.into_iter().map(Tensor::into_dispatch).collect(),
        }
    }
}

impl<const STACKED: usize, const SINGLE: usize> From<Tensor<STACKED>> for Stack<STACKED, SINGLE> {
    fn from(tensor: Tensor<STACKED>) -> Self {
        Self::Stacked(tensor)
    }
}

impl<const STACKED: usize, const SINGLE: usize> From<&[Tensor<SINGLE>]> for Stack<STACKED, SINGLE> {
    fn from(tensors: &[Tensor<SINGLE>]) -> Self {
        Self::List(tensors.to_vec())
    }
}

impl<const STACKED: usize, const SINGLE: usize> From<Vec<Tensor<SINGLE>>>
    for Stack<STACKED, SINGLE>
{
    fn from(tensors: Vec<Tensor<SINGLE>>) -> Self {
        Self::List(tensors)
    }
}

pub(super) use backend::{join, register_joined};

mod backend {
    use crate::ops::recording::{
        Autodiff, CheckpointStrategy, Checkpointer, Grads, NodeId, Ops, OpsKind, Step,
    };
    use burn::backend::tensor::FloatTensor;
    use burn::backend::{Backend, Shape, TensorMetadata};
    use burn::tensor::FloatDType;

    /// Makes one node of the autodiff graph that comes after those of all tensors. An operation
    /// of Burn's autodiff has a number of parents that is fixed at compile time; one with as
    /// many as experts takes this node as its parent and [`register_joined`]s the gradients of the
    /// tensors by their own ids. They are complete before the tensors' own steps run, because
    /// this node's step comes in between.
    ///
    /// # Panics
    /// There are no tensors.
    pub(in crate::ops::moe) fn join<'t, B: Backend, C: CheckpointStrategy>(
        tensors: impl IntoIterator<Item = &'t FloatTensor<Autodiff<B, C>>>,
    ) -> FloatTensor<Autodiff<B, C>> {
        let tensors: Vec<_> = tensors.into_iter().collect();
        let (device, dtype) = (tensors[0].device(), FloatDType::from(tensors[0].dtype()));
        let mut joined: Option<FloatTensor<Autodiff<B, C>>> = None;
        for chunk in tensors.chunks(JOINED - 1) {
            // A place that no tensor is left for repeats one: it gets no gradient from here.
            let nodes: [_; JOINED] = std::array::from_fn(|i| match (i, &joined) {
                (0, Some(before)) => before.node(),
                _ => chunk[i.saturating_sub(1).min(chunk.len() - 1)].node(),
            });
            let chained = joined.is_some();
            let nothing = B::float_zeros(Shape::new([0]), &device, dtype);
            joined = Some(match Join.prepare::<C>(nodes).compute_bound().stateful() {
                OpsKind::Tracked(prep) => prep.finish(chained, nothing),
                OpsKind::UnTracked(prep) => prep.finish(nothing),
            });
        }
        joined.expect("there are tensors")
    }

    /// How many parents a joint has.
    const JOINED: usize = 8;

    #[derive(Debug)]
    struct Join;

    impl<B: Backend> Step<B, JOINED> for Join {
        /// Whether the first parent is the joint before, whose step wants a gradient.
        type State = bool;

        fn backward(self, ops: Ops<bool, JOINED>, grads: &mut Grads, _: &mut Checkpointer) {
            let nothing = grads.consume::<B>(&ops.node);
            let [before, ..] = ops.parents;
            if let (true, Some(node)) = (ops.state, before) {
                grads.register::<B>(node.id, nothing);
            }
        }
    }

    /// Registers the gradients of tensors that were [joined](join), and an empty one for the
    /// joint, if it is tracked.
    pub(in crate::ops::moe) fn register_joined<B: Backend>(
        grads: &mut Grads,
        joint: Option<NodeId>,
        nodes: impl IntoIterator<Item = NodeId>,
        gradients: impl IntoIterator<Item = Option<FloatTensor<B>>>,
        like: &FloatTensor<B>,
    ) {
        let Some(joint) = joint else { return };
        for (node, gradient) in nodes.into_iter().zip(gradients) {
            if let Some(gradient) = gradient {
                grads.register::<B>(node, gradient);
            }
        }
        let dtype = FloatDType::from(like.dtype());
        let nothing = B::float_zeros(Shape::new([0]), &like.device(), dtype);
        grads.register::<B>(joint, nothing);
    }
}
