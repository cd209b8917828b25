use super::Settings;
use crate::semantics::{GluKey, Projections};
use burn::backend::autodiff::{
    Autodiff, NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, backend_extension};

/// Gated linear units as an operation of a Burn backend.
#[backend_extension(Flex: cfg(feature = "cpu"), Remote: cfg(feature = "remote"), Autodiff)]
pub trait GluBackend: Backend {
    /// The tensors are as the key lays them out. The result has the shape of the gate.
    fn glu(
        #[extension_type] tensors: Tensors<Self>,
        settings: Settings,
        key: GluKey,
    ) -> FloatTensor<Self>;
}

/// The tensors of a call on a backend, or their gradients.
#[derive(ExtensionType)]
pub enum Tensors<B: Backend> {
    /// Two of one shape and dtype.
    Separate {
        /// The gate.
        gate: FloatTensor<B>,
        /// What it gates.
        up: FloatTensor<B>,
    },
    /// Both in one, `[.., 2n]`.
    Packed(FloatTensor<B>),
}

impl<B: Backend> std::fmt::Debug for Tensors<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Separate { .. } => "Separate { .. }",
            Self::Packed(_) => "Packed(..)",
        })
    }
}

/// A backend's kernels of gated linear units, forward and backward.
pub trait GluKernel: Backend {
    /// The result, like the gate.
    fn glu_forward(tensors: Tensors<Self>, settings: Settings, key: GluKey) -> FloatTensor<Self>;

    /// The gradients, laid out as the tensors.
    fn glu_backward(
        dy: FloatTensor<Self>,
        tensors: Tensors<Self>,
        settings: Settings,
        key: GluKey,
    ) -> Tensors<Self>;
}

impl<B: Backend> Tensors<B> {
    /// Puts gate and up, or what holds both, in their places by the key.
    fn of<const N: usize>(tensors: [FloatTensor<B>; N], key: GluKey) -> Self {
        let mut tensors = tensors.into_iter();
        let mut next = || tensors.next().expect("as many operands as the key has");
        match key.projections {
            Projections::Separate => Self::Separate {
                gate: next(),
                up: next(),
            },
            Projections::Chunked | Projections::Interleaved => Self::Packed(next()),
        }
    }
}

#[derive(Debug)]
struct Glu;

impl<B: GluKernel, const N: usize> Backward<B, N> for Glu {
    /// The tensors, and what was computed of them: the result is not kept, nor anything in between.
    type State = ([NodeId; N], Settings, GluKey);

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (ids, settings, key) = ops.state;
        let dy = grads.consume::<B>(&ops.node);
        let tensors = ids.map(|id| checkpointer.retrieve_node_output(id));
        let gradients = B::glu_backward(dy, Tensors::of(tensors, key), settings, key);
        let gradients = match gradients {
            Tensors::Separate { gate, up } => vec![gate, up],
            Tensors::Packed(gate_up) => vec![gate_up],
        };
        for (node, gradient) in ops.parents.into_iter().zip(gradients) {
            if let Some(node) = node {
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}

impl<B: GluKernel, C: CheckpointStrategy> GluBackend for Autodiff<B, C> {
    fn glu(tensors: Tensors<Self>, settings: Settings, key: GluKey) -> FloatTensor<Self> {
        match tensors {
            Tensors::Separate { gate, up } => record::<B, C, 2>([gate, up], settings, key),
            Tensors::Packed(gate_up) => record::<B, C, 1>([gate_up], settings, key),
        }
    }
}

/// Runs the kernel and records its gradient.
fn record<B: GluKernel, C: CheckpointStrategy, const N: usize>(
    tensors: [FloatTensor<Autodiff<B, C>>; N],
    settings: Settings,
    key: GluKey,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes = tensors.each_ref().map(|tensor| tensor.node());
    match Glu.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let ids = tensors.each_ref().map(|tensor| prep.checkpoint(tensor));
            let primitives = tensors.map(|tensor| tensor.into_primitive());
            let y = B::glu_forward(Tensors::of(primitives, key), settings, key);
            prep.finish((ids, settings, key), y)
        }
        OpsKind::UnTracked(prep) => {
            let primitives = tensors.map(|tensor| tensor.into_primitive());
            let y = B::glu_forward(Tensors::of(primitives, key), settings, key);
            prep.finish(y)
        }
    }
}
