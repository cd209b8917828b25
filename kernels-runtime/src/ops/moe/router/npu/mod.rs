//! Routers over CANN's operators.
//!
//! `V` is `aclnnMoeGatingTopKSoftmaxV2`, which computes softmax and choice in either order, in f32.
//!
//! | key | forward | why |
//! |---|---|---|
//! | `softmax` | `V`, softmax first | of experts whose probabilities round to one f32 number it takes the first, the reference the larger logit; their weights are equal |
//! | `softmax`, `renormalise=sum` | `V`, choice first | the softmax of the chosen is the softmax of all divided by the sum of the chosen |
//! | `softmax_of_chosen` | `V`, choice first | computes exactly this |
//! | `sigmoid` | `V`, choice first, for the choice; the sigmoid of the chosen logits | logits and their sigmoids have the same order |
//! | `sigmoid`, `renormalise=sum` | refused | `aclnnMoeGatingTopK`, which computes it, is newer than CANN 8.1 and not among the operators of `burn-cann` |
//! | a correction, a choice from some groups | refused | as above |
//! | weights in f32 of logits in a half type | logits cast first | `V` has the type of its input |
//! | a scale | product | |
//! | logits that are NaN | left to `V` | CANN does not document the result |
//!
//! Backward: the chosen logits' gradient, scattered into zeros, if the softmax is of the chosen or for a sigmoid; the
//! gradient of all logits, by `aclnnSoftmaxBackward`, if the softmax is of all.

mod kernel;

pub(crate) use kernel::IMPLEMENTATION;

use super::{Backward, Operands, Routing};
use crate::npu::backend::ints;
use crate::npu::refused::one_float;
use crate::npu::views::contiguous;
use crate::npu::{Refused, Result, Seen, Specified, base};
use crate::reason::Reason;
use crate::semantics::{Correction, Grouping, MoeBlockKey, Renormalise, RouterWeights, Scoring};
use burn_cann::ops::moe::{Order, check_gating, gating_top_k_softmax_v2};
use burn_cann::{DType, Platform, Spec, Stream, Tensor};

/// The computation of the weights of the chosen experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Their share of the softmax of all experts.
    OfAll,
    /// The softmax of the chosen experts alone.
    OfChosen,
    /// The sigmoid of their logits.
    Sigmoid,
}

/// Returns whether dispatch takes the key. The number of groups that limits a choice is a number of the call, which
/// `limits` functions don't receive.
pub(crate) fn is_dispatched(key: MoeBlockKey) -> bool {
    key.grouping == Grouping::None
}

/// Returns the operators that compute a call of this key, or the reason if none do.
pub(crate) fn of_routing(routing: &Routing) -> Result<Plan, Refused> {
    let key = routing.key();
    let plan = match (key.scoring, key.renormalise) {
        _ if key.correction == Correction::Bias || routing.group_limit().is_some() => None,
        (Scoring::Softmax, Renormalise::None) => Some(Plan::OfAll),
        (Scoring::Softmax, Renormalise::Sum) | (Scoring::SoftmaxOfChosen, _) => {
            Some(Plan::OfChosen)
        }
        (Scoring::Sigmoid, Renormalise::None) => Some(Plan::Sigmoid),
        (Scoring::Sigmoid, Renormalise::Sum) => None,
    };
    plan.ok_or_else(|| {
        let why = format!("CANN's choice of experts has no {key}");
        Refused::new(Reason::Semantics, why)
    })
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
fn decide_routing(platform: &Platform, logits: &Spec, routing: &Routing) -> Result<Plan, Refused> {
    let plan = of_routing(routing)?;
    let dtype = one_float(("logits", logits), [])?;
    let one = Spec::contiguous(dtype, [logits.shape()[0].max(1), routing.num_experts()])?;
    check_gating(platform, &one, None, routing.top_k())?;
    Ok(plan)
}

/// Returns the weights and the experts of every token, `[tokens, k]`.
///
/// # Errors
/// Returns an error if [`decide`] refuses the operands or CANN fails.
pub fn forward(stream: &Stream, operands: &Operands<Seen<Tensor>>) -> Result<(Tensor, Tensor)> {
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
    let logits = contiguous(stream, &base::cast(stream, logits, dtype)?)?;
    let order = match plan {
        Plan::OfAll => Order::SoftmaxFirst {
            probabilities: false,
        },
        Plan::OfChosen | Plan::Sigmoid => Order::ChoiceFirst,
    };
    let chosen = gating_top_k_softmax_v2(stream, &logits, None, routing.top_k(), order)?;
    let weights = match plan {
        Plan::Sigmoid => {
            base::sigmoid(stream, &base::gather(stream, &logits, 1, &chosen.experts)?)?
        }
        Plan::OfAll | Plan::OfChosen => chosen.weights,
    };
    let experts = base::cast(stream, &chosen.experts, ints)?;
    Ok((
        base::mul_number(stream, &weights, routing.scale())?,
        experts,
    ))
}

/// Returns the gradient of the logits.
///
/// # Errors
/// Returns an error as [`forward`] does.
pub fn backward(
    stream: &Stream,
    operands: &Backward<Seen<Tensor>, Seen<Tensor>>,
) -> Result<Tensor> {
    let (logits, routing) = (operands.logits(), operands.routing());
    let (dw, experts) = (operands.dw(), operands.indices());
    let plan = decide_routing(stream.device().platform(), logits.spec(), &routing)?;
    if logits.spec().is_empty() {
        return Ok(Tensor::empty(stream, logits.dtype(), logits.shape())?);
    }
    // Sums over experts are computed in f32, as are the scores.
    let wide = base::cast(stream, logits, DType::F32)?;
    let dw = base::mul_number(
        stream,
        &base::cast(stream, dw, DType::F32)?,
        routing.scale(),
    )?;
    let gradient = match plan {
        Plan::OfAll => {
            let scores = base::softmax(stream, &wide, 1)?;
            let d_scores = at_chosen(stream, &wide, experts, &dw)?;
            base::softmax_backward(stream, &d_scores, &scores, 1)?
        }
        Plan::OfChosen => {
            let chosen = base::gather(stream, &wide, 1, experts)?;
            let weights = base::softmax(stream, &chosen, 1)?;
            let d_chosen = base::softmax_backward(stream, &dw, &weights, 1)?;
            at_chosen(stream, &wide, experts, &d_chosen)?
        }
        Plan::Sigmoid => {
            let chosen = base::gather(stream, &wide, 1, experts)?;
            let weights = base::sigmoid(stream, &chosen)?;
            // s · (1 − s) = s − s².
            let square = base::mul(stream, &weights, &weights)?;
            let slope = base::add(stream, &weights, &base::mul_number(stream, &square, -1.0)?)?;
            at_chosen(stream, &wide, experts, &base::mul(stream, &dw, &slope)?)?
        }
    };
    base::cast(stream, &gradient, logits.dtype())
}

/// Writes values at the places of the chosen experts, and zeros elsewhere.
fn at_chosen(stream: &Stream, like: &Tensor, experts: &Tensor, values: &Tensor) -> Result<Tensor> {
    let zeros = base::filled(stream, values.dtype(), like.shape(), 0.0)?;
    base::scatter_add(stream, &zeros, 1, experts, values)
}
