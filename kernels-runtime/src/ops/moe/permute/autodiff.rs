use super::{Sort, Spread, SpreadWeighed, Sum, Weigh, WeighBackward};
use crate::ops::operands::checked;
use crate::ops::recording::{
    Autodiff, CheckpointStrategy, Checkpointer, Grads, NodeId, Ops, OpsKind, Step, register,
};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata, backend_extension};

/// The operands of [`PermuteBackend::sort_slots`] as tensors of a backend.
pub type SortTensors<B> = Sort<FloatTensor<B>, IntTensor<B>>;
/// The operands of [`PermuteBackend::spread`] as tensors of a backend.
pub type SpreadTensors<B> = Spread<FloatTensor<B>, IntTensor<B>>;
/// The operands of [`PermuteBackend::sum_rows`] as tensors of a backend.
pub type SumTensors<B> = Sum<FloatTensor<B>, IntTensor<B>>;
/// The operands of [`PermuteBackend::weigh_rows`] as tensors of a backend.
pub type WeighTensors<B> = Weigh<FloatTensor<B>, IntTensor<B>>;

/// Moving tokens to rows and back as operations of a Burn backend. A row map is `[tokens, k]`. An
/// entry that is not the number of a row belongs to no row.
#[backend_extension(
    Flex: cfg(feature = "cpu"),
    Cube: cfg(feature = "gpu"),
    Remote: cfg(feature = "remote"),
    Autodiff,
)]
pub trait PermuteBackend: Backend {
    /// Returns the row map of the indices, `[tokens, k]`, and the number of rows of each expert,
    /// `[num_experts]`. Rows that are cut off are not counted.
    ///
    /// # Panics
    /// Panics on the CPU if an index is below 0 or above the number of experts. On an NPU, such a slot belongs to no
    /// expert. On a GPU too, and what is added up for its token is NaN.
    fn sort_slots(#[extension_type] slots: SortTensors<Self>)
    -> (IntTensor<Self>, IntTensor<Self>);

    /// Returns `[rows, H]`, with `tokens[t]` in every row in `row_map[t]`, and zeros in other rows.
    ///
    /// # Panics
    /// Panics on the CPU if the map names a row twice. An NPU does not check this; its rows are then in the order of
    /// the map's numbers. On a GPU, such a row has one of its slots.
    fn spread(#[extension_type] operands: SpreadTensors<Self>) -> FloatTensor<Self>;

    /// Returns `[tokens, H]`: for each token, the sum of the rows in the map.
    fn sum_rows(#[extension_type] operands: SumTensors<Self>) -> FloatTensor<Self>;

    /// Returns the same sums, with each row multiplied by its slot's probability. No row may be in the map twice.
    fn weigh_rows(#[extension_type] operands: WeighTensors<Self>) -> FloatTensor<Self>;
}

/// The kernels of a backend for gradients that are not operations themselves. `spread` and `sum_rows` are each
/// other's gradient.
pub trait PermuteKernel: PermuteBackend {
    /// Returns the gradient of the rows of `weigh_rows`.
    ///
    /// # Panics
    /// Panics as [`PermuteBackend::spread`] does.
    fn weigh_rows_d_rows(
        operands: SpreadWeighed<FloatTensor<Self>, IntTensor<Self>>,
    ) -> FloatTensor<Self>;

    /// Returns the gradients of the rows and of the probabilities.
    ///
    /// # Panics
    /// Panics as [`PermuteBackend::spread`] does.
    fn weigh_rows_backward(
        operands: WeighBackward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

#[derive(Debug)]
struct SpreadStep;

impl<B: PermuteKernel> Step<B, 1> for SpreadStep {
    /// The row map.
    type State = IntTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Grads, _: &mut Checkpointer) {
        let d_rows = grads.consume::<B>(&ops.node);
        if let [Some(node)] = ops.parents {
            let operands = checked(Sum::new(d_rows, ops.state));
            grads.register::<B>(node.id, B::sum_rows(operands));
        }
    }
}

#[derive(Debug)]
struct SumStep;

impl<B: PermuteKernel> Step<B, 1> for SumStep {
    /// The row map and the number of rows.
    type State = (IntTensor<B>, usize);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Grads, _: &mut Checkpointer) {
        let (row_map, rows) = ops.state;
        let dy = grads.consume::<B>(&ops.node);
        if let [Some(node)] = ops.parents {
            let operands = checked(Spread::of_gradient(dy, row_map, rows));
            grads.register::<B>(node.id, B::spread(operands));
        }
    }
}

#[derive(Debug)]
struct WeighStep;

/// The state of [`WeighStep`]'s backward pass.
#[derive(Clone, Debug)]
struct State<I> {
    /// The rows, kept only if the probabilities need a gradient.
    rows: Option<NodeId>,
    count: usize,
    probs: NodeId,
    row_map: I,
}

impl<B: PermuteKernel> Step<B, 2> for WeighStep {
    type State = State<IntTensor<B>>;

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Grads,
        checkpointer: &mut Checkpointer,
    ) {
        let State {
            rows,
            count,
            probs,
            row_map,
        } = ops.state;
        let [rows_node, probs_node] = ops.parents;
        let dy = grads.consume::<B>(&ops.node);
        let probs = checkpointer.retrieve_node_output(probs);
        let (d_rows, d_probs) = match rows {
            None => {
                let operands = checked(SpreadWeighed::new(dy, row_map, probs, count));
                (B::weigh_rows_d_rows(operands), None)
            }
            Some(rows) => {
                let rows = checkpointer.retrieve_node_output(rows);
                let operands = checked(WeighBackward::new(dy, rows, row_map, probs));
                let (d_rows, d_probs) = B::weigh_rows_backward(operands);
                (d_rows, Some(d_probs))
            }
        };
        register!(B, grads, rows_node, d_rows);
        register!(B, grads, probs_node, d_probs);
    }
}

impl<B: PermuteKernel, C: CheckpointStrategy> PermuteBackend for Autodiff<B, C> {
    fn sort_slots(slots: SortTensors<Self>) -> (IntTensor<Self>, IntTensor<Self>) {
        B::sort_slots(slots.map(|tensor| tensor.into_primitive(), |ints| ints))
    }

    fn spread(operands: SpreadTensors<Self>) -> FloatTensor<Self> {
        let prep = SpreadStep.prepare::<C>([operands.tokens().node()]);
        let row_map = operands.row_map().clone();
        let y = B::spread(operands.map(|tensor| tensor.into_primitive(), |ints| ints));
        match prep.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(row_map, y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }

    fn sum_rows(operands: SumTensors<Self>) -> FloatTensor<Self> {
        let prep = SumStep.prepare::<C>([operands.rows().node()]);
        let state = (operands.row_map().clone(), operands.rows().shape()[0]);
        let y = B::sum_rows(operands.map(|tensor| tensor.into_primitive(), |ints| ints));
        match prep.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(state, y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }

    fn weigh_rows(operands: WeighTensors<Self>) -> FloatTensor<Self> {
        let (rows, probs) = (operands.rows(), operands.probs());
        let primitives = |operands: WeighTensors<Self>| {
            B::weigh_rows(operands.map(|tensor| tensor.into_primitive(), |ints| ints))
        };
        match WeighStep
            .prepare::<C>([rows.node(), probs.node()])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(mut prep) => {
                let state = State {
                    rows: probs.is_tracked().then(|| prep.checkpoint(rows)),
                    count: rows.shape()[0],
                    probs: prep.checkpoint(probs),
                    row_map: operands.row_map().clone(),
                };
                prep.finish(state, primitives(operands))
            }
            OpsKind::UnTracked(prep) => prep.finish(primitives(operands)),
        }
    }
}
