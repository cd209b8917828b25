//! The cross-entropy over CANN's operators.
//!
//! `L` is `aclnnCrossEntropyLoss`, and `G` is `aclnnCrossEntropyLossGrad`, both with one loss for each token. The numbers
//! count reads and writes of logits in f32.
//!
//! | call | forward | backward | why |
//! |---|---|---|---|
//! | f32 | `L`: 2 | `L`, `G`, ignored tokens cleared: 6 | `G` takes the logarithms of the probabilities, which `L` writes. They are computed again, so that the forward pass keeps nothing |
//! | half types | cast, `L` | cast, `L`, `G`, cleared, copied | CANN rounds these logarithms to the type of the logits: in bf16, the probability of a class could be off by 6%. Some tokens at a time are computed in f32 |
//! | label smoothing | the same, by `L` | `aclnnScatterAdd`, `aclnnSub`: 4 more | `G` documents no smoothing. The gradients differ by a number for the target, and one for all classes |
//! | a z-loss | `aclnnMaxDim`: 1 more | `aclnnMaxDim`, `aclnnScatterAdd`: 3 more | CANN has parameters of a z-loss, but does not compute it |
//! | a cap | `aclnnTanh` between products: 6 more | the same, and the slope of the cap: 18 more | |
//! | strided | copied first: 2 more | as forward | CANN documents no strides |
//! | f64 | refused | | CANN computes in f32 |
//! | no classes | refused | | CANN's limit |
//!
//! The ignored index may be any number. Ignored tokens are computed as if their class were 0, and then cleared. The mean
//! and the sum are computed from the losses of the tokens.
//!
//! A target that is neither a class nor the ignored index is never an index on the device. Its token is ignored, and the
//! next read of the session is an error.

mod kernel;
mod losses;
mod targets;

pub(crate) use kernel::IMPLEMENTATION;
pub(in crate::ops) use kernel::{any, losses};
pub(in crate::ops) use losses::{Losses, check};
pub(in crate::ops) use targets::Targets;

use super::{CrossEntropy, Each, Operands};
use crate::npu::mistakes::Counts;
use crate::npu::refused::one_float;
use crate::npu::views::contiguous;
use crate::npu::{OnNpu, Refused, Result, Seen, Specified, base};
use crate::ops::fused::{Backward, Made};
use burn_cann::{DType, Platform, Stream, Tensor};
use std::ops::Range;

/// Checks that the operators compute these operands.
///
/// # Errors
/// Returns the reason if they don't.
pub fn decide<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>, Seen<T>>,
) -> Result<(), Refused> {
    one_float(("logits", operands.logits().spec()), [])?;
    check(platform, operands.sizes(), operands.settings())
}

impl OnNpu for CrossEntropy {
    fn forward(
        stream: &Stream,
        operands: &Operands<Seen<Tensor>, Seen<Tensor>>,
        _: Option<&Each<bool>>,
    ) -> Result<Made<Tensor>> {
        let loss = forward_by(stream, operands, most(operands))?;
        // The backward pass computes the logarithms again.
        Ok(Made::new(loss).saving([Tensor::empty(stream, DType::F32, [0])?]))
    }

    fn backward(
        stream: &Stream,
        backward: &Backward<Self, Seen<Tensor>>,
    ) -> Result<Each<Option<Tensor>>> {
        let d_logits = backward_by(stream, backward, most(backward.operands()))?;
        Ok(Each {
            logits: Some(d_logits),
        })
    }
}

/// Returns the loss. At most `together` tokens are computed at a time.
///
/// # Errors
/// Returns an error if [`decide`] refuses the operands or CANN fails.
pub fn forward_by(
    stream: &Stream,
    operands: &Operands<Seen<Tensor>, Seen<Tensor>>,
    together: usize,
) -> Result<Tensor> {
    decide(stream.device().platform(), operands)?;
    let [tokens, _] = operands.sizes();
    let targets = targets(stream, operands, Counts::Mistakes)?;
    let mut losses = Vec::new();
    for tokens in in_chunks(tokens, together) {
        losses.push(of_some(stream, operands, &targets, &tokens)?.each);
    }
    targets.reduced(stream, &losses, operands.key().reduction)
}

/// Returns the gradient of the logits. At most `together` tokens are computed at a time.
///
/// # Errors
/// Returns an error as [`forward_by`] does.
pub fn backward_by(
    stream: &Stream,
    backward: &Backward<CrossEntropy, Seen<Tensor>>,
    together: usize,
) -> Result<Tensor> {
    let operands = backward.operands();
    decide(stream.device().platform(), operands)?;
    let ([tokens, _], logits) = (operands.sizes(), operands.logits());
    let targets = targets(stream, operands, Counts::Nothing)?;
    let factors = targets.factors(stream, backward.dy(), operands.key().reduction)?;
    let gradient = |tokens: &Range<usize>| {
        let losses = of_some(stream, operands, &targets, tokens)?;
        losses.gradient(stream, &factors.slice(0, tokens.clone())?)
    };
    if tokens > 0 && tokens <= together && logits.dtype() == DType::F32 {
        return gradient(&(0..tokens));
    }
    let d_logits = Tensor::empty(stream, logits.dtype(), logits.shape())?;
    for tokens in in_chunks(tokens, together) {
        let part = d_logits.slice(0, tokens.clone())?;
        base::write(stream, &part, &gradient(&tokens)?)?;
    }
    Ok(d_logits)
}

fn targets(
    stream: &Stream,
    operands: &Operands<Seen<Tensor>, Seen<Tensor>>,
    counts: Counts,
) -> Result<Targets> {
    let [_, classes] = operands.sizes();
    let ignored = operands.settings().ignore_index;
    Targets::new(stream, operands.targets(), classes, ignored, counts)
}

/// Computes the losses of some tokens.
fn of_some(
    stream: &Stream,
    operands: &Operands<Seen<Tensor>, Seen<Tensor>>,
    targets: &Targets,
    tokens: &Range<usize>,
) -> Result<Losses> {
    let logits = operands.logits().slice(0, tokens.clone())?;
    let logits = contiguous(stream, &base::cast(stream, &logits, DType::F32)?)?;
    Losses::new(stream, logits, targets.slice(tokens)?, operands.settings())
}

/// Returns the number of tokens that are computed at a time: all in f32, and some in a half type, whose logits are copied.
fn most(operands: &Operands<Seen<Tensor>, Seen<Tensor>>) -> usize {
    let [tokens, classes] = operands.sizes();
    match operands.logits().dtype() {
        DType::F32 => tokens,
        _ => together(classes),
    }
}

/// The memory for logits in f32 that are computed together.
const BYTES: usize = 256 << 20;

/// The smallest number of tokens that are computed together, if there are as many. Fewer would leave cores without work.
const LEAST: usize = 64;

/// Returns the number of tokens whose logits in f32 are computed together.
pub(in crate::ops) fn together(classes: usize) -> usize {
    let row = classes.max(1).saturating_mul(size_of::<f32>());
    (BYTES / row / LEAST * LEAST).max(LEAST)
}

/// Divides tokens into chunks.
pub(in crate::ops) fn in_chunks(
    tokens: usize,
    together: usize,
) -> impl Iterator<Item = Range<usize>> {
    let starts = (0..tokens).step_by(together.max(1));
    starts.map(move |start| start..tokens.min(start + together))
}
