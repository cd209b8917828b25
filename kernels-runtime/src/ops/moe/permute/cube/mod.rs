//! Moving tokens to rows and back on GPUs. Products and sums are in f32, also those of half types, and rounded once.
//!
//! | operation | kernels | tensors read and written |
//! |---|---|---|
//! | `sort_slots` | those of the [sort](super::super::cube::sort) | integers alone |
//! | `spread`, and the gradient of the rows of `weigh_rows` | the inverse of the map, [`kernels::spread`] | tokens once for each slot, rows |
//! | `sum_rows`, `weigh_rows` | [`kernels::sum`] | rows of slots, tokens |
//! | the gradient of the probabilities | [`kernels::product`] | rows of slots, tokens once for each slot |
//!
//! **Mistakes.** A slot whose index is no expert's, and not one past the last, has no row, and what is added up for its token
//! is NaN: the sums, and the gradients of the token and of its probability. Nothing refuses a map that names a row twice; the
//! row then belongs to one of its slots.

mod kernels;
mod launch;

pub(in crate::ops::moe) use launch::{spread, sum};

use super::super::cube::sort;
use super::{
    PermuteBackend, PermuteKernel, SortTensors, SpreadTensors, SpreadWeighed, SumTensors,
    WeighBackward, WeighTensors,
};
use crate::gpu::entries::{entries, holds_mistakes, returned};
use crate::gpu::launch::contiguous;
use crate::gpu::{Deferred, Like, indexable, like};
use crate::ops::operands::checked;
use crate::reason::Reason;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Cube, DispatchTensor, IntDType, Shape, TensorMetadata};
use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use launch::products;

/// Returns the reason if kernels don't sort these slots, can't count the elements of so many rows of the tokens, or if a type
/// of integers does not hold what marks a mistake.
pub(crate) fn takes_tokens(
    tokens: &DispatchTensor,
    indices: &DispatchTensor,
    num_experts: usize,
    (rows, ints): (usize, IntDType),
) -> Result<(), Reason> {
    if !holds_mistakes(ints) {
        return Err(Reason::Dtype);
    }
    let slots = indices.shape().num_elements();
    indexable(&[tokens, indices])?;
    let rows = rows.saturating_mul(tokens.shape()[1]);
    match sort::sorts(slots, num_experts) && rows < 1 << 31 {
        true => Ok(()),
        false => Err(Reason::Shape),
    }
}

/// Returns the reason if kernels can't count the elements of the rows, of the map or of the result.
pub(crate) fn takes_rows(rows: &DispatchTensor, row_map: &DispatchTensor) -> Result<(), Reason> {
    indexable(&[rows, row_map])?;
    let result = row_map.shape()[0].saturating_mul(rows.shape()[1]);
    match result < 1 << 31 && row_map.shape().num_elements() < 1 << 31 {
        true => Ok(()),
        false => Err(Reason::Shape),
    }
}

/// Puts an operation into the stream that computes one tensor from float tensors and a row map, in the dtype of the first one.
fn one<const N: usize>(
    id: &'static str,
    floats: [&FloatTensor<Cube>; N],
    row_map: &IntTensor<Cube>,
    result: Shape,
    run: impl Fn([CubeTensor; N], CubeTensor) -> CubeTensor + Send + Sync + 'static,
) -> FloatTensor<Cube> {
    let results = [(result, TensorMetadata::dtype(floats[0]))];
    several(id, floats, row_map, results, move |floats, row_map| {
        vec![run(floats, row_map)]
    })
    .next()
    .expect("there is one result")
}

/// Puts an operation into the stream that computes tensors from float tensors and a row map.
fn several<const N: usize, const R: usize>(
    id: &'static str,
    floats: [&FloatTensor<Cube>; N],
    row_map: &IntTensor<Cube>,
    results: [Like; R],
    run: impl Fn([CubeTensor; N], CubeTensor) -> Vec<CubeTensor> + Send + Sync + 'static,
) -> impl Iterator<Item = FloatTensor<Cube>> {
    let mut deferred = Deferred::new(id, floats[0]);
    let floats = floats.map(|tensor| deferred.operand(tensor.clone()));
    let row_map = deferred.operand(entries(row_map.clone()));
    deferred.results(results, move |tensors| {
        let floats = floats
            .clone()
            .map(|operand| contiguous(tensors.tensor(operand)));
        run(floats, contiguous(tensors.tensor(row_map.clone())))
    })
}

impl PermuteBackend for Cube {
    fn sort_slots(slots: SortTensors<Self>) -> (IntTensor<Self>, IntTensor<Self>) {
        let indices = entries(slots.indices().clone());
        let mut deferred = Deferred::new("burn-kernels/moe_sort", &indices);
        let (experts, rows) = (slots.num_experts(), slots.rows());
        let count = indices.shape().num_elements();
        assert!(
            sort::sorts(count, experts) && holds_mistakes(slots.integers()),
            "permutation: kernels for GPUs don't sort {count} slots by {experts} experts into {:?}",
            slots.integers()
        );
        let results = [indices.shape(), Shape::new([experts])];
        let results = results.map(|shape| (shape, DType::I32));
        let indices = deferred.operand(indices);
        let mut results = deferred.results(results, move |tensors| {
            let sorted = sort::by_expert(tensors.tensor(indices.clone()), experts, rows);
            vec![sorted.rows, sorted.counts]
        });
        let mut next = || results.next().expect("there are two results");
        let [map, counts] = [next(), next()].map(|ints| returned(ints, slots.integers()));
        (map, counts)
    }

    fn spread(operands: SpreadTensors<Self>) -> FloatTensor<Self> {
        checked(operands.dtype());
        let (id, rows) = ("burn-kernels/moe_permute", operands.rows());
        let (result, map) = (operands.result(), operands.row_map());
        one(
            id,
            [operands.tokens()],
            map,
            result,
            move |[tokens], map| spread(&tokens, &map, None, rows),
        )
    }

    fn sum_rows(operands: SumTensors<Self>) -> FloatTensor<Self> {
        checked(operands.dtype());
        let (id, result) = ("burn-kernels/moe_sum_rows", operands.result());
        one(
            id,
            [operands.rows()],
            operands.row_map(),
            result,
            |[rows], map| sum(&rows, &map, None, rows.dtype),
        )
    }

    fn weigh_rows(operands: WeighTensors<Self>) -> FloatTensor<Self> {
        checked(operands.dtype());
        let (id, result) = ("burn-kernels/moe_unpermute", operands.result());
        let floats = [operands.rows(), operands.probs()];
        one(
            id,
            floats,
            operands.row_map(),
            result,
            |[rows, probs], map| sum(&rows, &map, Some(&probs), rows.dtype),
        )
    }
}

impl PermuteKernel for Cube {
    fn weigh_rows_d_rows(
        operands: SpreadWeighed<FloatTensor<Self>, IntTensor<Self>>,
    ) -> FloatTensor<Self> {
        checked(operands.dtype());
        let (id, rows) = ("burn-kernels/moe_unpermute_d_rows", operands.rows());
        let floats = [operands.dy(), operands.probs()];
        let (result, map) = (operands.result(), operands.row_map());
        one(id, floats, map, result, move |[dy, probs], map| {
            spread(&dy, &map, Some(&probs), rows)
        })
    }

    fn weigh_rows_backward(
        operands: WeighBackward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        checked(operands.dtype());
        let id = "burn-kernels/moe_unpermute_backward";
        let (rows, probs) = (operands.rows(), operands.probs());
        let results = [rows, probs].map(like);
        let floats = [operands.dy(), rows, probs];
        let run = |[dy, rows, probs]: [CubeTensor; 3], map: CubeTensor| {
            let count = rows.shape()[0];
            let d_rows = spread(&dy, &map, Some(&probs), count);
            vec![d_rows, products(&dy, &rows, &map, probs.dtype)]
        };
        let mut results = several(id, floats, operands.row_map(), results, run);
        let mut next = || results.next().expect("there are two results");
        (next(), next())
    }
}
