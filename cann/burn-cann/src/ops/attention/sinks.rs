//! Attention with sinks (`aclnnFlashAttentionScoreV3`) and its gradient (`aclnnFlashAttentionScoreGradV3`), of CANN 8.5.
//!
//! A sink is one more score of each row of its head. It takes part in the sum of the softmax and has no value.

use super::super::aclnn::aclnn;
use super::super::{Checked, Refusal, check};
use super::{Attended, Gradients, KEEP_ALL, Mask, PRECISE, Results, Settings, check_attended};
use crate::dtype::DType;
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// CANN's number for no position shifts.
const NO_SHIFT: i64 = 1;

/// Checks the operands of [`attention_with_sinks`] and returns the specs of what it returns.
///
/// The operands are those of [`check`](super::check()), in f16 or bf16, and `sinks`, f32 `[heads]`. The sinks are
/// contiguous, because CANN's documentation is silent about their strides.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_with_sinks(
    platform: &Platform,
    [q, k, v]: [&Spec; 3],
    sinks: &Spec,
    mask: Mask<&Spec>,
    settings: Settings,
) -> Checked<Results> {
    if !platform.version.at_least(8, 5) {
        return Err(Refusal::Version {
            what: "attention with sinks",
            needed: "8.5",
            found: platform.version.to_string(),
        });
    }
    let results = super::check(platform, q, k, v, mask, settings)?;
    check::dtype(("q, beside sinks,", q), &[DType::F16, DType::BF16])?;
    check::dtype(("sinks", sinks), &[DType::F32])?;
    check::shape(("sinks", sinks), &[settings.heads])?;
    check::contiguous(("sinks", sinks))?;
    Ok(results)
}

/// Checks the operands of [`attention_with_sinks_backward`]: those of [`check_with_sinks`], `dy` like `output`, and the
/// results that [`attention_with_sinks`] returned.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_with_sinks_backward(
    platform: &Platform,
    tensors: [&Spec; 3],
    sinks: &Spec,
    mask: Mask<&Spec>,
    settings: Settings,
    given: [&Spec; 4],
) -> Checked<()> {
    let results = check_with_sinks(platform, tensors, sinks, mask, settings)?;
    check_attended(&results, given)
}

/// Computes attention as [`attention`](super::attention()) does, with a sink for each head of queries. The statistics
/// include the sinks.
///
/// # Errors
///
/// Returns an error if [`check_with_sinks`] refuses the operands or a call fails.
pub fn attention_with_sinks(
    stream: &Stream,
    [q, k, v]: [&Tensor; 3],
    sinks: &Tensor,
    mask: Mask<&Tensor>,
    settings: Settings,
) -> Result<Attended> {
    let device = stream.device();
    let results = check_with_sinks(
        device.platform(),
        [q, k, v].map(Tensor::spec),
        sinks.spec(),
        mask.map(Tensor::spec),
        settings,
    )?;
    let made = Attended::new(stream, &results)?;
    let (most, sum, y) = (&made.softmax_max, &made.softmax_sum, &made.output);
    let (mode, [before, behind]) = (mask.mode(), mask.band());
    let (absent, mask) = (None::<&Tensor>, mask.tensor());
    let layout = settings.axes.text().as_ptr().cast_mut();
    let heads = settings.heads as i64;
    aclnn!(
        stream, attention.aclnnFlashAttentionScoreV3GetWorkspaceSize, aclnnFlashAttentionScoreV3,
        tensors [q, k, v, absent, mask, sinks, most, sum, y], constants [], attributes [],
        call(
            q, k, v, absent, absent, absent, mask, sinks, std::ptr::null(), std::ptr::null(),
            std::ptr::null(), settings.scale, KEEP_ALL, before, behind, heads, layout, PRECISE,
            mode, NO_SHIFT, most, sum, absent, y,
        ),
        made.clone(),
    )
}

/// Returns the gradients of [`attention_with_sinks`] from `dy`, the gradient of its output, and from what it returned.
/// The second one is that of the sinks, f32 `[heads]`.
///
/// # Errors
///
/// Returns an error if [`check_with_sinks_backward`] refuses the operands or a call fails.
pub fn attention_with_sinks_backward(
    stream: &Stream,
    dy: &Tensor,
    [q, k, v]: [&Tensor; 3],
    sinks: &Tensor,
    mask: Mask<&Tensor>,
    settings: Settings,
    attended: &Attended,
) -> Result<(Gradients, Tensor)> {
    let Attended {
        output,
        softmax_max: most,
        softmax_sum: sum,
    } = attended;
    let device = stream.device();
    check_with_sinks_backward(
        device.platform(),
        [q, k, v].map(Tensor::spec),
        sinks.spec(),
        mask.map(Tensor::spec),
        settings,
        attended.specs(dy),
    )?;
    let made = Gradients::new(stream, [q, k, v])?;
    let of_sinks = Tensor::like(stream, sinks.spec())?;
    let (dq, dk, dv, dsinks) = (&made.dq, &made.dk, &made.dv, &of_sinks);
    let (mode, [before, behind]) = (mask.mode(), mask.band());
    let (absent, mask) = (None::<&Tensor>, mask.tensor());
    let layout = settings.axes.text().as_ptr().cast_mut();
    let heads = settings.heads as i64;
    aclnn!(
        stream, attention.aclnnFlashAttentionScoreGradV3GetWorkspaceSize,
        aclnnFlashAttentionScoreGradV3,
        tensors [q, k, v, dy, absent, mask, most, sum, output, sinks, dq, dk, dv, dsinks],
        constants [], attributes [],
        call(
            q, k, v, dy, absent, absent, absent, mask, most, sum, absent, output, sinks,
            std::ptr::null(), std::ptr::null(), std::ptr::null(), settings.scale, KEEP_ALL, before,
            behind, heads, layout, PRECISE, mode, NO_SHIFT, dq, dk, dv, absent, dsinks,
        ),
        (made.clone(), of_sinks.clone()),
    )
}
