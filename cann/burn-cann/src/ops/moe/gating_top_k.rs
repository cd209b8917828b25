//! The choice of experts by their scores, with a bias and within groups (`aclnnMoeGatingTopK`).

use crate::dtype::DType;
use crate::error::Result;
use crate::ops::aclnn::aclnn;
use crate::ops::check;
use crate::ops::{Checked, Refusal};
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// The largest number of experts.
const EXPERTS: usize = 2048;

/// Groups are rounded up to this number of experts, and the sum is limited, too.
const ALIGNED: usize = 32;

/// The number that is added to the sum of the weights.
const EPS: f64 = 1e-20;

/// The settings of [`gating_top_k`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gating {
    /// The number of experts that a token chooses.
    pub k: usize,
    /// The scores of the experts, and the weights that follow.
    pub scores: Scores,
    /// The groups that the choice is limited to, if it is.
    pub groups: Option<Groups>,
}

/// The scores of the experts of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scores {
    /// The softmax of all logits. These are the weights.
    Softmax,
    /// The softmax of all logits. The weights are divided by their sum.
    SoftmaxShares,
    /// The sigmoid of each logit. The weights are divided by their sum.
    SigmoidShares,
}

/// Groups of adjacent experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Groups {
    /// The number of groups. It divides the number of experts.
    pub count: usize,
    /// The number of groups that a token chooses.
    pub chosen: usize,
    /// True if a group scores as the sum of its two best experts, and otherwise as its best.
    pub by_two: bool,
}

/// The chosen experts of each token, by their scores.
#[derive(Debug, Clone)]
pub struct ChosenByScore {
    /// The weights of the chosen experts, best first, `[tokens, k]` in the dtype of the logits.
    pub weights: Tensor,
    /// The indices of the chosen experts, i32.
    pub experts: Tensor,
    /// The scores of all experts, f32, `[tokens, experts]`.
    pub scores: Tensor,
}

/// Checks the operands of [`gating_top_k`] and returns the spec of the weights. `x` has the router's logits,
/// `[tokens, experts]`, not empty, with at most 2048 experts; `bias` is `[experts]` in the same dtype. The operands must be
/// contiguous, because CANN does not document that they may be strided.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands, or if it is older than 8.3.
pub fn check_gating_top_k(
    platform: &Platform,
    x: &Spec,
    bias: Option<&Spec>,
    gating: Gating,
) -> Checked<Spec> {
    check::processor(platform, "MoeGatingTopK")?;
    if !platform.version.at_least(8, 3) {
        return Err(Refusal::Version {
            what: "a choice of experts with a bias, groups or shares of sigmoids",
            needed: "8.3",
            found: platform.version.to_string(),
        });
    }
    check::dtype(("x", x), &check::FLOATS)?;
    check::rank(("x", x), 2, 2)?;
    check::contiguous(("x", x))?;
    check::not_empty(("x", x))?;
    let [tokens, experts] = [x.shape()[0], x.shape()[1]];
    check::at_most("the number of experts", experts, EXPERTS)?;
    if let Some(bias) = bias {
        check::dtype(("bias", bias), &[x.dtype])?;
        check::shape(("bias", bias), &[experts])?;
        check::contiguous(("bias", bias))?;
    }
    let available = match gating.groups {
        Some(groups) => groups.check(experts)?,
        None => experts,
    };
    if gating.k == 0 {
        return Err(invalid("k", 0, "positive"));
    }
    check::at_most("k", gating.k, available)?;
    Ok(Spec::contiguous(x.dtype, [tokens, gating.k])?)
}

impl Groups {
    /// Returns the number of experts in the chosen groups.
    fn check(self, experts: usize) -> Checked<usize> {
        let Self {
            count,
            chosen,
            by_two,
        } = self;
        if count == 0 || !experts.is_multiple_of(count) {
            return Err(invalid(
                "the number of groups",
                count,
                "a divisor of the number of experts",
            ));
        }
        if chosen == 0 || chosen > count {
            return Err(invalid(
                "the number of chosen groups",
                chosen,
                "from 1 to the number of groups",
            ));
        }
        let size = experts / count;
        if by_two && size < 2 {
            return Err(invalid("the size of a group", size, "at least 2"));
        }
        let aligned = size.next_multiple_of(ALIGNED) * count;
        check::at_most("the number of experts in aligned groups", aligned, EXPERTS)?;
        Ok(size * chosen)
    }
}

fn invalid(what: &'static str, found: usize, expected: &'static str) -> Refusal {
    Refusal::Value {
        what,
        found: found.to_string(),
        expected,
    }
}

/// Scores the experts of each token in f32 and chooses the `k` with the largest sums of score and bias, in the best
/// groups. Of equal sums, the first expert is chosen. The bias is not part of the weights.
///
/// # Errors
///
/// Returns an error if [`check_gating_top_k`] refuses the operands or a call fails.
pub fn gating_top_k(
    stream: &Stream,
    x: &Tensor,
    bias: Option<&Tensor>,
    gating: Gating,
) -> Result<ChosenByScore> {
    let device = stream.device();
    let bias_spec = bias.map(Tensor::spec);
    let weights = check_gating_top_k(device.platform(), x.spec(), bias_spec, gating)?;
    let weights = Tensor::like(stream, &weights)?;
    let output = ChosenByScore {
        experts: Tensor::empty(stream, DType::I32, weights.shape())?,
        scores: Tensor::empty(stream, DType::F32, x.shape())?,
        weights,
    };
    let ChosenByScore {
        weights,
        experts,
        scores,
    } = &output;
    let groups = gating.groups.unwrap_or(Groups {
        count: 1,
        chosen: 1,
        by_two: false,
    });
    let [k, chosen, count] = [gating.k, groups.chosen, groups.count].map(|number| number as i64);
    let by_two = i64::from(groups.by_two);
    let shares = i64::from(gating.scores == Scores::SoftmaxShares);
    let sigmoid = i64::from(gating.scores == Scores::SigmoidShares);
    aclnn!(
        stream, moe.aclnnMoeGatingTopKGetWorkspaceSize, aclnnMoeGatingTopK,
        tensors [x, bias, weights, experts, scores], constants [],
        attributes [k, chosen, count, by_two, shares, sigmoid],
        // CANN does not document that the scores may be left out.
        call(
            x, bias, k, chosen, count, by_two, shares, sigmoid, true, 1.0, EPS, weights, experts,
            scores,
        ),
        output,
    )
}
