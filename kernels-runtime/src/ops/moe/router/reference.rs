use super::super::top_k::{nan_as_largest, top_k};
use super::{Routed, Routing};
use crate::kernel::{rounded, softmax};
use crate::ops::{compute_dtype, same_dtype_as};
use crate::semantics::{Grouping, Renormalise, RouterWeights, Scoring};
use burn::tensor::{Bool, DType, Int, Tensor};

/// Routes tokens with plain tensor operations, on any backend: the definition that kernels are
/// verified against. See [`fused`](super::fused) for shapes.
///
/// # Panics
/// Panics if the shapes don't fit together, or if `bias` is not present exactly when the key has a correction.
pub fn reference(logits: Tensor<2>, bias: Option<Tensor<1>>, routing: &Routing) -> Routed {
    super::check(&logits, bias.as_ref(), routing);
    let dtype = logits.dtype();
    let compute = compute_dtype(dtype);
    let result = match routing.key().weights {
        RouterWeights::Logits => dtype,
        RouterWeights::Wide => compute,
    };
    if logits.dims()[0] == 0 {
        return nothing(logits, routing.top_k(), result);
    }
    let logits = same_dtype_as(logits, compute);
    let scores = match routing.key().scoring {
        Scoring::SoftmaxOfChosen => logits.clone(),
        Scoring::Softmax | Scoring::Sigmoid => routing.scores(logits.clone()),
    };
    let compared = match bias {
        _ if routing.chooses_by_logits() => logits,
        None => scores.clone(),
        Some(bias) => scores.clone() + same_dtype_as(bias, compute).unsqueeze(),
    };
    let indices = choose(compared.detach(), routing);
    let weights = weigh(scores.gather(1, indices.clone()), routing);
    Routed {
        weights: same_dtype_as(weights, result),
        indices,
    }
}

/// Returns the result for no tokens. The weights still belong to the logits' graph.
fn nothing(logits: Tensor<2>, k: usize, dtype: DType) -> Routed {
    let indices = Tensor::<2, Int>::zeros([0, k], &logits.device());
    Routed {
        weights: same_dtype_as(logits.gather(1, indices.clone()), dtype),
        indices,
    }
}

fn choose(compared: Tensor<2>, routing: &Routing) -> Tensor<2, Int> {
    let compared = nan_as_largest(compared);
    let excluded = routing
        .group_limit()
        .map(|(groups, chosen)| outside(compared.clone(), groups, chosen, routing.key().grouping));
    top_k(compared, excluded, routing.top_k())
}

/// Returns a mask of the experts that are not in their token's best groups.
fn outside(
    compared: Tensor<2>,
    groups: usize,
    chosen: usize,
    grouping: Grouping,
) -> Tensor<2, Bool> {
    let [tokens, experts] = compared.dims();
    let size = experts / groups;
    let device = compared.device();
    let members = compared.reshape([tokens * groups, size]);
    let score = match grouping {
        Grouping::TopTwo => {
            let two = top_k(members.clone(), None, 2);
            members.gather(1, two).sum_dim(1)
        }
        Grouping::Max | Grouping::None => members.max_dim(1),
    };
    let best: Tensor<3, Int> =
        top_k(score.reshape([tokens, groups]), None, chosen).unsqueeze_dim(2);
    let every: Tensor<3, Int> = Tensor::<1, Int>::arange(0..groups as i64, &device).unsqueeze();
    let shape = [tokens, chosen, groups];
    let inside = best.expand(shape).equal(every.expand(shape)).any_dim(1);
    inside
        .reshape([tokens, groups, 1])
        .expand([tokens, groups, size])
        .reshape([tokens, experts])
        .bool_not()
}

/// Returns the weights, given the chosen experts' scores.
fn weigh(scores: Tensor<2>, routing: &Routing) -> Tensor<2> {
    let weights = match routing.key().scoring {
        Scoring::SoftmaxOfChosen => softmax(scores),
        Scoring::Softmax | Scoring::Sigmoid => scores,
    };
    let weights = match routing.key().renormalise {
        Renormalise::None => weights,
        Renormalise::Sum => weights.clone() / rounded(weights.sum_dim(1)).add_scalar(1e-20),
    };
    weights.mul_scalar(routing.scale())
}
