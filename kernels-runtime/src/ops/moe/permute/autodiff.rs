use burn::backend::autodiff::{
    Autodiff, NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata, backend_extension};
use burn::tensor::IntDType;

/// Moving tokens to rows and back as operations of a Burn backend. A row map is `[tokens, k]`; an
/// entry that is not the number of a row names none.
#[backend_extension(Flex: cfg(feature = "cpu"), Remote: cfg(feature = "remote"), Autodiff)]
pub trait PermuteBackend: Backend {
    /// The row map of `indices`, `[tokens, k]`, and how many of the first `rows` rows each expert
    /// has, `[num_experts]`, both of type `ints`.
    fn sort_slots(
        indices: IntTensor<Self>,
        num_experts: usize,
        rows: usize,
        ints: IntDType,
    ) -> (IntTensor<Self>, IntTensor<Self>);

    /// `[rows, H]` with `tokens[t]` in every row that `row_map[t]` names and zeros elsewhere. No
    /// row is named twice.
    fn spread(
        tokens: FloatTensor<Self>,
        row_map: IntTensor<Self>,
        rows: usize,
    ) -> FloatTensor<Self>;

    /// `[tokens, H]`: for each token the sum of the rows that `row_map` names.
    fn sum_rows(rows: FloatTensor<Self>, row_map: IntTensor<Self>) -> FloatTensor<Self>;

    /// The same of rows times their slots' probabilities, `[tokens, k]`, in the dtype of the rows
    /// or f32 (f64 for f64). No row is named twice.
    fn weigh_rows(
        rows: FloatTensor<Self>,
        row_map: IntTensor<Self>,
        probs: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
}

/// A backend's kernels for the gradients that are not among its operations: `spread` and `sum_rows`
/// are each other's.
pub trait PermuteKernel: PermuteBackend {
    /// The gradient of the rows of `weigh_rows`, of which there are `rows`.
    fn weigh_rows_d_rows(
        dy: FloatTensor<Self>,
        row_map: IntTensor<Self>,
        probs: FloatTensor<Self>,
        rows: usize,
    ) -> FloatTensor<Self>;

    /// The gradients of the rows and of the probabilities.
    fn weigh_rows_backward(
        dy: FloatTensor<Self>,
        rows: FloatTensor<Self>,
        row_map: IntTensor<Self>,
        probs: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

#[derive(Debug)]
struct Spread;

impl<B: PermuteKernel> Backward<B, 1> for Spread {
    /// The row map.
    type State = IntTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let d_rows = grads.consume::<B>(&ops.node);
        if let [Some(node)] = ops.parents {
            grads.register::<B>(node.id, B::sum_rows(d_rows, ops.state));
        }
    }
}

#[derive(Debug)]
struct SumRows;

impl<B: PermuteKernel> Backward<B, 1> for SumRows {
    /// The row map and the number of rows.
    type State = (IntTensor<B>, usize);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (row_map, rows) = ops.state;
        let dy = grads.consume::<B>(&ops.node);
        if let [Some(node)] = ops.parents {
            grads.register::<B>(node.id, B::spread(dy, row_map, rows));
        }
    }
}

#[derive(Debug)]
struct WeighRows;

/// What the backward pass of [`WeighRows`] needs.
#[derive(Clone, Debug)]
struct State<I> {
    /// Kept only if the probabilities need a gradient.
    rows: Option<NodeId>,
    count: usize,
    probs: NodeId,
    row_map: I,
}

impl<B: PermuteKernel> Backward<B, 2> for WeighRows {
    type State = State<IntTensor<B>>;

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Gradients,
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
            None => (B::weigh_rows_d_rows(dy, row_map, probs, count), None),
            Some(rows) => {
                let rows = checkpointer.retrieve_node_output(rows);
                let (d_rows, d_probs) = B::weigh_rows_backward(dy, rows, row_map, probs);
                (d_rows, Some(d_probs))
            }
        };
        if let Some(node) = rows_node {
            grads.register::<B>(node.id, d_rows);
        }
        if let (Some(node), Some(d_probs)) = (probs_node, d_probs) {
            grads.register::<B>(node.id, d_probs);
        }
    }
}

impl<B: PermuteKernel, C: CheckpointStrategy> PermuteBackend for Autodiff<B, C> {
    fn sort_slots(
        indices: IntTensor<Self>,
        num_experts: usize,
        rows: usize,
        ints: IntDType,
    ) -> (IntTensor<Self>, IntTensor<Self>) {
        B::sort_slots(indices, num_experts, rows, ints)
    }

    fn spread(
        tokens: FloatTensor<Self>,
        row_map: IntTensor<Self>,
        rows: usize,
    ) -> FloatTensor<Self> {
        let prep = Spread.prepare::<C>([tokens.node()]);
        let y = B::spread(tokens.into_primitive(), row_map.clone(), rows);
        match prep.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(row_map, y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }

    fn sum_rows(rows: FloatTensor<Self>, row_map: IntTensor<Self>) -> FloatTensor<Self> {
        let prep = SumRows.prepare::<C>([rows.node()]);
        let count = rows.shape()[0];
        let y = B::sum_rows(rows.into_primitive(), row_map.clone());
        match prep.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((row_map, count), y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }

    fn weigh_rows(
        rows: FloatTensor<Self>,
        row_map: IntTensor<Self>,
        probs: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let probs_gradient = probs.is_tracked();
        let count = rows.shape()[0];
        match WeighRows
            .prepare::<C>([rows.node(), probs.node()])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(mut prep) => {
                let state = State {
                    rows: probs_gradient.then(|| prep.checkpoint(&rows)),
                    count,
                    probs: prep.checkpoint(&probs),
                    row_map: row_map.clone(),
                };
                let y = B::weigh_rows(rows.into_primitive(), row_map, probs.into_primitive());
                prep.finish(state, y)
            }
            OpsKind::UnTracked(prep) => {
                let y = B::weigh_rows(rows.into_primitive(), row_map, probs.into_primitive());
                prep.finish(y)
            }
        }
    }
}
