//! Routers over CANN's operators.
//!
//! `V` is `aclnnMoeGatingTopKSoftmaxV2`, which computes softmax and choice in either order, in f32. `G` is
//! `aclnnMoeGatingTopK`, of CANN 8.3, which chooses by scores that it computes in f32, with a bias and within groups.
//!
//! | key | forward | why |
//! |---|---|---|
//! | `softmax` | `V`, softmax first | of experts whose probabilities round to one f32 number it takes the first, the reference the larger logit; their weights are equal |
//! | `softmax`, `renormalise=sum` | `V`, choice first | the softmax of the chosen is the softmax of all divided by the sum of the chosen |
//! | `softmax_of_chosen` | `V`, choice first | computes exactly this |
//! | `sigmoid` | `V`, choice first, for the choice; the sigmoid of the chosen logits | logits and their sigmoids have the same order |
//! | `sigmoid`, `renormalise=sum` | `G` | computes exactly this |
//! | `softmax`, or `sigmoid` with `renormalise=sum`; a correction, a choice from some groups | `G`, with logits in f32 | computes exactly this; the correction is in f32, and `G` takes one type |
//! | `sigmoid` without `renormalise`; a correction, a choice from some groups | refused | `G` always divides sigmoids by their sum |
//! | weights in f32 of logits in a half type | logits cast first | `V` and `G` have the type of their input |
//! | a scale | product | |
//! | logits that are NaN | left to the operator | CANN does not document the result |
//!
//! Backward: the chosen logits' gradient, scattered into zeros, if the softmax is of the chosen or for sigmoids; the
//! gradient of all logits, by `aclnnSoftmaxBackward`, if the softmax is of all.

mod kernel;

pub(crate) use kernel::IMPLEMENTATION;

use super::{Each, Operands, Router, Routing};
use crate::npu::backend::ints;
use crate::npu::mistakes::{Counts, Mistake, nearest};
use crate::npu::refused::one_float;
use crate::npu::views::contiguous;
use crate::npu::{OnNpu, Refused, Result, Seen, Specified, base};
use crate::ops::fused::{Backward, Made};
use crate::reason::Reason;
use crate::semantics::{Correction, Grouping, Renormalise, RouterKey, RouterWeights, Scoring};
use burn_cann::ops::moe::{
    Gating, Groups, Order, Scores, check_gating, check_gating_top_k, gating_top_k,
    gating_top_k_softmax_v2,
};
use burn_cann::{DType, Platform, Spec, Stream, Tensor};

/// The operators that route tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The operator that chooses the experts.
    pub choice: Choice,
    /// The weights of the chosen experts.
    pub weights: Weights,
}

/// The operator that chooses experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// `aclnnMoeGatingTopKSoftmaxV2`, by their logits alone.
    ByLogits,
    /// `aclnnMoeGatingTopK`, by their scores, with a correction and in groups.
    ByScores,
}

/// The computation of the weights of the chosen experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// Their part of the softmax of all experts.
    OfAll,
    /// The softmax of the chosen experts alone.
    OfChosen,
    /// The sigmoid of their logits.
    Sigmoid,
    /// The sigmoid of their logits, divided by the sum of these.
    SigmoidShares,
}

/// Returns the operator that chooses the experts, or what CANN lacks for the key. The choice may be limited to groups.
pub(crate) fn operators(key: RouterKey, is_limited: bool) -> Result<Vec<&'static str>, Refused> {
    let plan = of_key(key, is_limited).ok_or_else(|| lack(key))?;
    Ok(vec![match plan.choice {
        Choice::ByLogits => "aclnnMoeGatingTopKSoftmaxV2",
        Choice::ByScores => "aclnnMoeGatingTopK",
    }])
}

fn lack(key: RouterKey) -> Refused {
    Refused::new(
        Reason::Semantics,
        format!("CANN's choice of experts has no {key}"),
    )
}

/// Returns the operators that compute a key, if some do. The choice may be limited to groups.
fn of_key(key: RouterKey, is_limited: bool) -> Option<Plan> {
    let weights = match (key.scoring, key.renormalise) {
        (Scoring::Softmax, Renormalise::None) => Weights::OfAll,
        (Scoring::Softmax, Renormalise::Sum) | (Scoring::SoftmaxOfChosen, _) => Weights::OfChosen,
        (Scoring::Sigmoid, Renormalise::None) => Weights::Sigmoid,
        (Scoring::Sigmoid, Renormalise::Sum) => Weights::SigmoidShares,
    };
    let by_scores =
        is_limited || key.correction == Correction::Bias || weights == Weights::SigmoidShares;
    let choice = match by_scores {
        false => Choice::ByLogits,
        true if weights == Weights::Sigmoid || key.scoring == Scoring::SoftmaxOfChosen => {
            return None;
        }
        true => Choice::ByScores,
    };
    Some(Plan { choice, weights })
}

/// Returns the operators that compute a call of this key, or the reason if none do.
pub(crate) fn of_routing(routing: &Routing) -> Result<Plan, Refused> {
    let key = routing.key();
    of_key(key, routing.group_limit().is_some()).ok_or_else(|| lack(key))
}

/// Returns the settings of a choice by scores.
fn gating(plan: Plan, routing: &Routing) -> Gating {
    let by_two = routing.key().grouping == Grouping::TopTwo;
    Gating {
        k: routing.top_k(),
        scores: match plan.weights {
            Weights::OfAll => Scores::Softmax,
            Weights::OfChosen => Scores::SoftmaxShares,
            Weights::Sigmoid | Weights::SigmoidShares => Scores::SigmoidShares,
        },
        groups: routing.group_limit().map(|(count, chosen)| Groups {
            count,
            chosen,
            by_two,
        }),
    }
}

/// Returns the operators that route these tokens.
///
/// # Errors
/// Returns the reason if no operators do.
pub fn decide<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>>,
) -> Result<Plan, Refused> {
    decide_routing(platform, operands.logits().spec(), &operands.routing())
}

/// Decides from the operands that both passes have.
pub(crate) fn decide_routing(
    platform: &Platform,
    logits: &Spec,
    routing: &Routing,
) -> Result<Plan, Refused> {
    let plan = of_routing(routing)?;
    let dtype = one_float(("logits", logits), [])?;
    let shape = [logits.shape()[0].max(1), routing.num_experts()];
    match plan.choice {
        Choice::ByLogits => {
            let one = Spec::contiguous(dtype, shape)?;
            check_gating(platform, &one, None, routing.top_k())?;
        }
        Choice::ByScores => {
            let wide = Spec::contiguous(DType::F32, shape)?;
            check_gating_top_k(platform, &wide, None, gating(plan, routing))?;
        }
    }
    Ok(plan)
}

impl OnNpu for Router {
    fn forward(
        stream: &Stream,
        operands: &Operands<Seen<Tensor>>,
        _: Option<&Each<bool>>,
    ) -> Result<Made<Tensor>> {
        let (weights, indices) = forward(stream, operands)?;
        Ok(Made::new(weights).and_ints(indices))
    }

    fn backward(
        stream: &Stream,
        backward: &Backward<Self, Seen<Tensor>>,
    ) -> Result<Each<Option<Tensor>>> {
        let operands = backward.operands();
        let bias = operands.bias().filter(|_| backward.wanted().bias);
        let zeros = |bias: &Seen<Tensor>| base::filled(stream, bias.dtype(), bias.shape(), 0.0);
        Ok(Each {
            logits: Some(gradient(
                stream,
                operands,
                backward.dy(),
                &backward.ints()[0],
            )?),
            bias: bias.map(zeros).transpose()?,
        })
    }
}

/// Returns the weights and the experts of every token, `[tokens, k]`.
fn forward(stream: &Stream, operands: &Operands<Seen<Tensor>>) -> Result<(Tensor, Tensor)> {
    let plan = decide(stream.device().platform(), operands)?;
    let (logits, routing) = (operands.logits(), operands.routing());
    let ints = ints(operands.ints());
    let dtype = match routing.key().weights {
        RouterWeights::Logits => logits.dtype(),
        RouterWeights::Wide => DType::F32,
    };
    let shape = [logits.shape()[0], routing.top_k()];
    if logits.spec().is_empty() {
        return Ok((
            Tensor::empty(stream, dtype, shape)?,
            Tensor::empty(stream, ints, shape)?,
        ));
    }
    let (weights, experts) = match plan.choice {
        Choice::ByLogits => by_logits(stream, &base::cast(stream, logits, dtype)?, plan, &routing)?,
        Choice::ByScores => by_scores(stream, operands, plan)?,
    };
    let weights = base::cast(stream, &weights, dtype)?;
    let experts = base::cast(stream, &experts, ints)?;
    Ok((
        base::mul_number(stream, &weights, routing.scale())?,
        experts,
    ))
}

/// Returns weights in the dtype of the logits, and experts.
fn by_logits(
    stream: &Stream,
    logits: &Tensor,
    plan: Plan,
    routing: &Routing,
) -> Result<(Tensor, Tensor)> {
    let logits = contiguous(stream, logits)?;
    let order = match plan.weights {
        Weights::OfAll => Order::SoftmaxFirst {
            probabilities: false,
        },
        Weights::OfChosen | Weights::Sigmoid | Weights::SigmoidShares => Order::ChoiceFirst,
    };
    let chosen = gating_top_k_softmax_v2(stream, &logits, None, routing.top_k(), order)?;
    let weights = match plan.weights {
        Weights::Sigmoid => {
            base::sigmoid(stream, &base::gather(stream, &logits, 1, &chosen.experts)?)?
        }
        Weights::OfAll | Weights::OfChosen | Weights::SigmoidShares => chosen.weights,
    };
    Ok((weights, chosen.experts))
}

/// Returns weights in f32, and experts.
fn by_scores(
    stream: &Stream,
    operands: &Operands<Seen<Tensor>>,
    plan: Plan,
) -> Result<(Tensor, Tensor)> {
    let logits = wide(stream, operands.logits())?;
    let bias = match operands.bias() {
        Some(bias) => Some(wide(stream, bias)?),
        None => None,
    };
    let gating = gating(plan, &operands.routing());
    let chosen = gating_top_k(stream, &logits, bias.as_ref(), gating)?;
    Ok((chosen.weights, chosen.experts))
}

fn wide(stream: &Stream, tensor: &Tensor) -> Result<Tensor> {
    contiguous(stream, &base::cast(stream, tensor, DType::F32)?)
}

/// Returns the gradient of the logits, given that of the weights and the chosen experts.
fn gradient(
    stream: &Stream,
    operands: &Operands<Seen<Tensor>>,
    dw: &Tensor,
    experts: &Tensor,
) -> Result<Tensor> {
    let (logits, routing) = (operands.logits(), operands.routing());
    let plan = decide_routing(stream.device().platform(), logits.spec(), &routing)?;
    if logits.spec().is_empty() {
        return Ok(Tensor::empty(stream, logits.dtype(), logits.shape())?);
    }
    // They come back from the client.
    let last = logits.shape()[1] - 1;
    let experts = &nearest(stream, experts, last, (Mistake::Chosen, Counts::Mistakes))?;
    // Sums over experts are computed in f32, as are the scores.
    let wide = base::cast(stream, logits, DType::F32)?;
    let dw = base::mul_number(
        stream,
        &base::cast(stream, dw, DType::F32)?,
        routing.scale(),
    )?;
    let gradient = match plan.weights {
        Weights::OfAll => {
            let scores = base::softmax(stream, &wide, 1)?;
            let d_scores = at_chosen(stream, &wide, experts, &dw)?;
            base::softmax_backward(stream, &d_scores, &scores, 1)?
        }
        Weights::OfChosen => {
            let chosen = base::gather(stream, &wide, 1, experts)?;
            let weights = base::softmax(stream, &chosen, 1)?;
            let d_chosen = base::softmax_backward(stream, &dw, &weights, 1)?;
            at_chosen(stream, &wide, experts, &d_chosen)?
        }
        Weights::Sigmoid => {
            let chosen = base::gather(stream, &wide, 1, experts)?;
            let weights = base::sigmoid(stream, &chosen)?;
            let slope = sigmoid_slope(stream, &weights)?;
            at_chosen(stream, &wide, experts, &base::mul(stream, &dw, &slope)?)?
        }
        Weights::SigmoidShares => {
            let chosen = base::gather(stream, &wide, 1, experts)?;
            let scores = base::sigmoid(stream, &chosen)?;
            let d_scores = shares_backward(stream, &dw, &scores)?;
            let slope = sigmoid_slope(stream, &scores)?;
            let d_chosen = base::mul(stream, &d_scores, &slope)?;
            at_chosen(stream, &wide, experts, &d_chosen)?
        }
    };
    base::cast(stream, &gradient, logits.dtype())
}

/// Returns the slope of a sigmoid at its value `s`: `s · (1 − s) = s − s²`.
fn sigmoid_slope(stream: &Stream, value: &Tensor) -> Result<Tensor> {
    base::sub(stream, value, &base::mul(stream, value, value)?)
}

/// Returns the gradient of scores whose shares of their sum have the gradient `dw`: `(dw − Σ dw · share) / sum`.
fn shares_backward(stream: &Stream, dw: &Tensor, scores: &Tensor) -> Result<Tensor> {
    let sum = base::sum(stream, scores, &[1], true)?;
    let sum = base::add_number(stream, &sum, EPS)?;
    let shares = base::div(stream, scores, &sum)?;
    let mean = base::sum(stream, &base::mul(stream, dw, &shares)?, &[1], true)?;
    base::div(stream, &base::sub(stream, dw, &mean)?, &sum)
}

/// The number that is added to a sum of scores.
const EPS: f64 = 1e-20;

/// Writes values at the places of the chosen experts, and zeros elsewhere.
fn at_chosen(stream: &Stream, like: &Tensor, experts: &Tensor, values: &Tensor) -> Result<Tensor> {
    let zeros = base::filled(stream, values.dtype(), like.shape(), 0.0)?;
    base::scatter_add(stream, &zeros, 1, experts, values)
}
