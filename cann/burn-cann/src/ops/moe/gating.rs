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

/// The chosen experts of each token.
#[derive(Debug, Clone)]
pub struct ChosenV2 {
    /// The probabilities of the chosen experts, best first, with the shape and dtype of `x` but `k` for the experts.
    pub weights: Tensor,
    /// The indices of the chosen experts, i32. For a finished token, they are the number of experts.
    pub experts: Tensor,
    /// The probabilities of all experts in f32, if they were requested.
    pub probabilities: Option<Tensor>,
}

/// The order of the choice and the softmax.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Softmax over all experts, then the choice. The weights of the chosen experts don't add up to 1.
    SoftmaxFirst {
        /// True if the probabilities of all experts are also returned.
        probabilities: bool,
    },
    /// The choice, then softmax over the chosen experts.
    ChoiceFirst,
}

/// Checks the operands of [`gating_top_k_softmax_v2`] and returns the spec of the weights, from which those of the
/// indices follow. `x` has the router's logits, `[…, E]` with 2 or 3 dimensions; `finished` marks tokens. `k` is at
/// most 1024 and at most the number of experts. The operands must be contiguous, because CANN does not document that
/// they may be strided.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_gating(
    platform: &Platform,
    x: &Spec,
    finished: Option<&Spec>,
    k: usize,
) -> Checked<Spec> {
    check::processor(platform, "MoeGatingTopKSoftmaxV2")?;
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

/// Chooses the `k` best experts of each token, and computes the softmax over all experts or over the chosen ones in f32. Of
/// equal probabilities, the first expert is chosen.
///
/// # Errors
///
/// Returns an error if [`check_gating`] refuses the operands or a call fails.
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
    // CANN takes NULL for the probabilities if `all` is false.
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
