//! The choice of experts.

use crate::dtype::DType;
use crate::error::Result;
use crate::layout::Dimensions;
use crate::ops::aclnn::aclnn;
use crate::ops::check;
use crate::ops::{Checked, Refusal};
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// The choice of experts.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The probabilities of the chosen, like `x` with `k` for the experts, best first.
    pub weights: Tensor,
    /// i32, their numbers; of a finished token the number of experts.
    pub experts: Tensor,
    /// i32, `k · tokens + t` for choice `k` of token `t`.
    pub rows: Tensor,
}

/// The choice of experts by version 2.
#[derive(Debug, Clone)]
pub struct ChosenV2 {
    /// As of [`Chosen`].
    pub weights: Tensor,
    /// As of [`Chosen`].
    pub experts: Tensor,
    /// f32, the probabilities of all experts, if they were asked for.
    pub probabilities: Option<Tensor>,
}

/// The order of choosing and softmax.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Softmax over all experts, then the best; their weights don't add up to 1. The probabilities of all
    /// come along if `probabilities`.
    SoftmaxFirst {
        /// Whether the probabilities of all experts are wanted.
        probabilities: bool,
    },
    /// The best, then softmax over those.
    ChoiceFirst,
}

/// What [`gating_top_k_softmax`] makes of the router's logits `x`, `[…, E]` of 2 or 3 dimensions, and which
/// tokens are `finished`: the spec of the weights, from which those of the numbers follow. `k` is at most
/// 1024 and the number of experts. CANN does not say that the operands may be strided, so they may not.
///
/// # Errors
///
/// Why CANN would refuse.
pub fn check_gating(
    platform: &Platform,
    x: &Spec,
    finished: Option<&Spec>,
    k: usize,
) -> Checked<Spec> {
    check::processor(platform, "MoeGatingTopKSoftmax")?;
    check::dtype(("x", x), &check::FLOATS)?;
    check::rank(("x", x), 2, 3)?;
    check::contiguous(("x", x))?;
    let mut shape = Dimensions::from(x.shape());
    let experts = shape.pop().unwrap_or(0);
    if let Some(finished) = finished {
        check::dtype(("finished", finished), &[DType::Bool])?;
        check::shape(("finished", finished), &shape)?;
        check::contiguous(("finished", finished))?;
    }
    if k == 0 {
        return Err(Refusal::Value {
            what: "k",
            found: "0".to_owned(),
            expected: "positive",
        });
    }
    check::at_most("k", k, experts.min(1024))?;
    shape.push(k);
    Ok(Spec::contiguous(x.dtype, shape)?)
}

/// Softmax over the experts in f32, and the `k` best of each token; of equals the first.
///
/// # Errors
///
/// Refused by [`check_gating`], or a call failed.
pub fn gating_top_k_softmax(
    stream: &Stream,
    x: &Tensor,
    finished: Option<&Tensor>,
    k: usize,
) -> Result<Chosen> {
    let device = stream.device();
    let weights = check_gating(device.platform(), x.spec(), finished.map(Tensor::spec), k)?;
    let weights = Tensor::like(stream, &weights)?;
    let output = Chosen {
        experts: Tensor::empty(stream, DType::I32, weights.shape())?,
        rows: Tensor::empty(stream, DType::I32, weights.shape())?,
        weights,
    };
    if x.spec().is_empty() {
        return Ok(output);
    }
    let k = k as i64;
    let Chosen {
        weights,
        experts,
        rows,
    } = &output;
    aclnn!(
        stream, moe.aclnnMoeGatingTopKSoftmaxGetWorkspaceSize, aclnnMoeGatingTopKSoftmax,
        tensors [x, finished, weights, experts, rows], constants [], attributes [k],
        call(x, finished, k, weights, experts, rows), output,
    )
}

/// [`gating_top_k_softmax`] by version 2, which can choose before the softmax. Checked alike.
///
/// # Errors
///
/// Refused by [`check_gating`], or a call failed.
pub fn gating_top_k_softmax_v2(
    stream: &Stream,
    x: &Tensor,
    finished: Option<&Tensor>,
    k: usize,
    order: Order,
) -> Result<ChosenV2> {
    let device = stream.device();
    let weights = check_gating(device.platform(), x.spec(), finished.map(Tensor::spec), k)?;
    let weights = Tensor::like(stream, &weights)?;
    let experts = Tensor::empty(stream, DType::I32, weights.shape())?;
    let all = matches!(
        order,
        Order::SoftmaxFirst {
            probabilities: true
        }
    );
    let probabilities = all
        .then(|| Tensor::empty(stream, DType::F32, x.shape()))
        .transpose()?;
    let renorm = i64::from(order == Order::ChoiceFirst);
    let output = ChosenV2 {
        weights,
        experts,
        probabilities,
    };
    if x.spec().is_empty() {
        return Ok(output);
    }
    let k = k as i64;
    // CANN takes NULL for the probabilities where `all` is false.
    let (weights, experts, probabilities) = (
        &output.weights,
        &output.experts,
        output.probabilities.as_ref(),
    );
    aclnn!(
        stream, moe.aclnnMoeGatingTopKSoftmaxV2GetWorkspaceSize, aclnnMoeGatingTopKSoftmaxV2,
        tensors [x, finished, weights, experts, probabilities], constants [], attributes [k, renorm],
        call(x, finished, k, renorm, all, weights, experts, probabilities), output,
    )
}
