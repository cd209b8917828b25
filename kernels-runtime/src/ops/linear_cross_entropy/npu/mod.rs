//! The linear cross-entropy over CANN's operators.
//!
//! `M` is `aclnnMatmul`, and `A` is `aclnnInplaceAddmm`, which adds a product to its target. `L` and `G` are the operators
//! of the [cross-entropy](crate::ops::cross_entropy::npu), whose table has those of smoothing, caps and z-losses.
//!
//! | call | forward, for each chunk of tokens | backward | why |
//! |---|---|---|---|
//! | without gradients | `M`, `L` | | the logits of a chunk take at most 256 MiB, or those of 64 tokens |
//! | a mean or a sum, with gradients | `M`, `L`, `G`, and for the gradients `M` and `A` | products with the gradient of the loss | gradients are computed while the logits are there, as on the CPU |
//! | one loss for each token, with the gradient of the hidden states alone | as for a mean | products with the gradients of the losses | each of its rows has one factor |
//! | one loss for each token otherwise | `M`, `L` | for each chunk `M`, `L`, `G`, `M`, `A` | each token has a factor of its own, which the forward pass doesn't know |
//! | half types | cast, the same in f32 | cast to the half type | the key rounds no logits, and `M` in a half type would round them. The weight is copied in f32 |
//! | a weight `[width, classes]` | a view | a view | `M` and `A` take strides |
//! | a bias | `aclnnAdd` | `aclnnReduceSum` | |
//! | f64, different types | refused | | CANN computes in f32 |
//! | no classes | refused | | CANN's limit |
//!
//! Ignored tokens are computed too, with zeros for their hidden states: only the device knows how many there are. Invalid
//! targets are treated as those of the cross-entropy.

mod kernel;

pub(crate) use kernel::IMPLEMENTATION;

use super::{Backward, Gradients, Kept, Operands, Wanted};
use crate::npu::limits::dtype;
use crate::npu::mistakes::Counts;
use crate::npu::refused::one_float;
use crate::npu::views::reshaped;
use crate::npu::{Refused, Result, Seen, Specified, base};
use crate::ops::cross_entropy::npu::{Losses, Targets, check, in_chunks, together};
use crate::semantics::OutputLayout;
use burn_cann::ops::matmul;
use burn_cann::{DType, Platform, Spec, Stream, Tensor};
use std::ops::Range;

type Tensors = Operands<Seen<Tensor>, Seen<Tensor>>;

/// Checks that the operators compute these operands.
///
/// # Errors
/// Returns the reason if they don't.
pub fn decide<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>, Seen<T>>,
) -> Result<(), Refused> {
    let (hidden, weight) = (operands.hidden().spec(), operands.weight().spec());
    let bias = operands.bias().map(|bias| ("bias", bias.spec()));
    let others = std::iter::once(("weight", weight)).chain(bias);
    one_float(("hidden states", hidden), others)?;
    let sizes = operands.sizes();
    let [tokens, classes, width] = [sizes.tokens, sizes.classes, sizes.width];
    check(platform, [tokens, classes], operands.settings())?;
    // Products of f32, whatever the type of the operands is.
    let wide = |shape: [usize; 2]| Spec::contiguous(DType::F32, shape);
    let (hidden, weight) = (wide([tokens, width])?, wide([width, classes])?);
    let logits = matmul::check(platform, &hidden, &weight)?;
    let turned = wide([width, tokens])?;
    matmul::check_add_product(platform, &weight, &turned, &logits)?;
    Ok(())
}

/// Returns the loss and the gradients that are kept for the backward pass, in f32.
///
/// # Errors
/// Returns an error if [`decide`] refuses the operands or CANN fails.
pub fn forward(
    stream: &Stream,
    operands: &Tensors,
    kept: Wanted,
) -> Result<(Tensor, Gradients<Tensor>)> {
    forward_by(stream, operands, kept, together(operands.sizes().classes))
}

/// Returns the loss and the kept gradients as [`forward`] does. At most `together` tokens are computed at a time.
///
/// # Errors
/// Returns an error as [`forward`] does.
pub fn forward_by(
    stream: &Stream,
    operands: &Tensors,
    kept: Wanted,
    together: usize,
) -> Result<(Tensor, Gradients<Tensor>)> {
    let pass = Pass::new(stream, operands, Counts::Mistakes)?;
    let reduction = operands.key().reduction;
    let factors = match kept.any() {
        true => {
            let (loss, _) = operands.result();
            let one = base::filled(stream, DType::F32, loss.as_slice(), 1.0)?;
            Some(pass.targets.factors(stream, &one, reduction)?)
        }
        false => None,
    };
    let (losses, gradients) = pass.run(factors.as_ref(), kept, together)?;
    let loss = pass.targets.reduced(stream, &losses, reduction)?;
    Ok((loss, gradients))
}

/// Returns kept gradients, multiplied by the gradient of the loss, or row by row by those of losses, and rounded to their
/// type. Zeros stay, whatever these are: those of ignored tokens, of whose logits nothing has a gradient, are not told
/// from others.
///
/// # Errors
/// Returns an error if CANN fails.
pub fn scale(stream: &Stream, kept: Kept<Seen<Tensor>>) -> Result<Gradients<Tensor>> {
    let to = dtype(kept.dtype()).expect("kept gradients are floats");
    let (gradients, dy) = kept.into_parts();
    let rows = dy.shape()[0];
    let dy = match rows {
        1 => dy.0,
        // The gradient of a sum is one number with a stride of zero.
        rows => reshaped(stream, &dy, [rows, 1])?,
    };
    of_each(gradients, |gradient| {
        // Infinity and NaN times zero are NaN.
        let scaled = base::mul(stream, &gradient, &dy)?;
        base::masked_fill(stream, &scaled, &base::zero(stream, &gradient)?, 0.0)?;
        base::cast(stream, &scaled, to)
    })
}

/// Returns the wanted gradients of losses that were not reduced, in the type of the operands.
///
/// # Errors
/// Returns an error as [`forward`] does.
pub fn backward(
    stream: &Stream,
    backward: &Backward<Seen<Tensor>, Seen<Tensor>>,
) -> Result<Gradients<Tensor>> {
    let classes = backward.operands().sizes().classes;
    backward_by(stream, backward, together(classes))
}

/// Returns the gradients as [`backward`] does. At most `together` tokens are computed at a time.
///
/// # Errors
/// Returns an error as [`forward`] does.
pub fn backward_by(
    stream: &Stream,
    backward: &Backward<Seen<Tensor>, Seen<Tensor>>,
    together: usize,
) -> Result<Gradients<Tensor>> {
    let operands = backward.operands();
    let pass = Pass::new(stream, operands, Counts::Nothing)?;
    let reduction = operands.key().reduction;
    let factors = pass.targets.factors(stream, backward.dy(), reduction)?;
    let (_, gradients) = pass.run(Some(&factors), *backward.wanted(), together)?;
    let to = operands.hidden().dtype();
    of_each(gradients, |gradient| base::cast(stream, &gradient, to))
}

/// Applies a function that may fail to each gradient.
fn of_each<T>(
    gradients: Gradients<T>,
    mut each: impl FnMut(T) -> Result<Tensor>,
) -> Result<Gradients<Tensor>> {
    Ok(Gradients {
        hidden: gradients.hidden.map(&mut each).transpose()?,
        weight: gradients.weight.map(&mut each).transpose()?,
        bias: gradients.bias.map(each).transpose()?,
    })
}

/// A pass over all tokens, forward or backward.
struct Pass<'a> {
    stream: &'a Stream,
    operands: &'a Tensors,
    targets: Targets,
    /// The weight in f32, `[width, classes]`.
    weight: Tensor,
    /// The bias in f32.
    bias: Option<Tensor>,
}

impl<'a> Pass<'a> {
    fn new(stream: &'a Stream, operands: &'a Tensors, counts: Counts) -> Result<Self> {
        decide(stream.device().platform(), operands)?;
        let (classes, ignored) = (operands.sizes().classes, operands.settings().ignore_index);
        let weight = base::cast(stream, operands.weight(), DType::F32)?;
        let bias = operands.bias();
        let bias = bias.map(|bias| base::cast(stream, bias, DType::F32));
        Ok(Self {
            stream,
            operands,
            targets: Targets::new(stream, operands.targets(), classes, ignored, counts)?,
            weight: match operands.key().layout {
                OutputLayout::OutputMajor => weight.transpose(0, 1)?,
                OutputLayout::InputMajor => weight,
            },
            bias: bias.transpose()?,
        })
    }

    /// Computes the losses of all tokens, in parts, and with the factors of their gradients, the wanted gradients in f32.
    fn run(
        &self,
        factors: Option<&Tensor>,
        wanted: Wanted,
        together: usize,
    ) -> Result<(Vec<Tensor>, Gradients<Tensor>)> {
        let (mut losses, mut sums) = (Vec::new(), Sums::default());
        for tokens in in_chunks(self.operands.sizes().tokens, together) {
            let hidden = self.hidden(&tokens)?;
            let found = self.losses(&hidden, &tokens)?;
            losses.push(found.each.clone());
            if let Some(factors) = factors {
                let factors = factors.slice(0, tokens)?;
                let slopes = found.gradient(self.stream, &factors)?;
                self.add(&mut sums, &hidden, &slopes, wanted)?;
            }
        }
        Ok((losses, self.finished(sums, wanted)?))
    }

    /// Returns some tokens' hidden states in f32. Those of ignored tokens are zeros: no product makes zero of infinity and
    /// NaN.
    fn hidden(&self, tokens: &Range<usize>) -> Result<Tensor> {
        let hidden = self.operands.hidden().slice(0, tokens.clone())?;
        let wide = match hidden.dtype() {
            DType::F32 => base::copy(self.stream, &hidden)?,
            _ => base::cast(self.stream, &hidden, DType::F32)?,
        };
        self.targets.slice(tokens)?.clear(self.stream, &wide)?;
        Ok(wide)
    }

    fn losses(&self, hidden: &Tensor, tokens: &Range<usize>) -> Result<Losses> {
        let mut logits = base::product(self.stream, hidden, &self.weight)?;
        if let Some(bias) = &self.bias {
            logits = base::add(self.stream, &logits, bias)?;
        }
        let (targets, settings) = (self.targets.slice(tokens)?, self.operands.settings());
        Losses::new(self.stream, logits, targets, settings)
    }

    /// Adds a chunk to the gradients, given the gradient of its logits.
    fn add(&self, sums: &mut Sums, hidden: &Tensor, slopes: &Tensor, wanted: Wanted) -> Result<()> {
        let stream = self.stream;
        if wanted.hidden {
            let weight = self.weight.transpose(0, 1)?;
            sums.hidden.push(base::product(stream, slopes, &weight)?);
        }
        if wanted.weight {
            let (left, right) = match self.operands.key().layout {
                OutputLayout::OutputMajor => (slopes.transpose(0, 1)?, hidden.clone()),
                OutputLayout::InputMajor => (hidden.transpose(0, 1)?, slopes.clone()),
            };
            match &sums.weight {
                Some(sum) => base::add_product(stream, sum, &left, &right)?,
                None => sums.weight = Some(base::product(stream, &left, &right)?),
            }
        }
        if wanted.bias {
            let more = base::sum(stream, slopes, &[0], false)?;
            sums.bias = Some(match &sums.bias {
                Some(sum) => base::add(stream, sum, &more)?,
                None => more,
            });
        }
        Ok(())
    }

    /// Returns the wanted gradients. Those of no tokens are zeros.
    fn finished(&self, sums: Sums, wanted: Wanted) -> Result<Gradients<Tensor>> {
        let (stream, operands) = (self.stream, self.operands);
        let or_zeros = |sum: Option<Tensor>, wanted: bool, like: Option<&Seen<Tensor>>| {
            let zeros = |like: &Tensor| base::filled(stream, DType::F32, like.shape(), 0.0);
            match (sum, like) {
                (None, Some(like)) if wanted => zeros(like).map(Some),
                (sum, _) => Ok(sum),
            }
        };
        let hidden = match &sums.hidden[..] {
            [] => None,
            [all] => Some(all.clone()),
            parts => Some(base::cat(stream, &parts.iter().collect::<Vec<_>>(), 0)?),
        };
        Ok(Gradients {
            hidden: or_zeros(hidden, wanted.hidden, Some(operands.hidden()))?,
            weight: or_zeros(sums.weight, wanted.weight, Some(operands.weight()))?,
            bias: or_zeros(sums.bias, wanted.bias, operands.bias())?,
        })
    }
}

/// The gradients of the chunks so far.
#[derive(Default)]
struct Sums {
    /// Those of the hidden states, chunk by chunk.
    hidden: Vec<Tensor>,
    weight: Option<Tensor>,
    bias: Option<Tensor>,
}
