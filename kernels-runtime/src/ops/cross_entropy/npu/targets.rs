//! Targets on the device.

use crate::npu::mistakes::{self, Counts, Mistake};
use crate::npu::views::contiguous;
use crate::npu::{Result, base};
use crate::semantics::LossReduction;
use burn_cann::{DType, Stream, Tensor};
use std::ops::Range;

/// The target of each token. Every class exists, so that no operator reads outside of the logits.
pub(in crate::ops) struct Targets {
    /// The class of each token in i64, or 0 for a token that does not count.
    classes: Tensor,
    /// True for tokens that don't count.
    ignored: Tensor,
}

impl Targets {
    /// Reads nothing. A target that is neither a class nor the ignored index is counted, and its token is ignored.
    pub(in crate::ops) fn new(
        stream: &Stream,
        targets: &Tensor,
        classes: usize,
        ignore_index: i64,
        counts: Counts,
    ) -> Result<Self> {
        // The type of the ignored index and of CANN's targets.
        let targets = contiguous(stream, &base::cast(stream, targets, DType::I64)?)?;
        let below = base::below(stream, &targets, 0.0)?;
        let above = base::at_least(stream, &targets, classes as f64)?;
        let no_class = base::or(stream, &below, &above)?;
        let meant = base::equal(stream, &targets, ignore_index)?;
        if counts == Counts::Mistakes {
            mistakes::count(stream, Mistake::Target, || {
                base::and(stream, &no_class, &base::not(stream, &meant)?)
            })?;
        }
        let ignored = base::or(stream, &no_class, &meant)?;
        let classes = base::copy(stream, &targets)?;
        base::masked_fill(stream, &classes, &ignored, 0.0)?;
        Ok(Self { classes, ignored })
    }

    /// Returns the targets of some tokens.
    pub(in crate::ops) fn slice(&self, tokens: &Range<usize>) -> Result<Self> {
        Ok(Self {
            classes: self.classes.slice(0, tokens.clone())?,
            ignored: self.ignored.slice(0, tokens.clone())?,
        })
    }

    /// Returns the class of each token.
    pub(super) fn classes(&self) -> &Tensor {
        &self.classes
    }

    /// Writes zeros for the tokens that don't count, whatever their numbers are. Tokens are the first axis.
    pub(in crate::ops) fn clear(&self, stream: &Stream, tensor: &Tensor) -> Result<()> {
        let mask = match tensor.shape().len() {
            1 => self.ignored.clone(),
            _ => self.ignored.unsqueeze(1)?,
        };
        base::masked_fill(stream, tensor, &mask, 0.0)
    }

    /// Returns the number of tokens that count, `[1]` in f32.
    fn counted(&self, stream: &Stream) -> Result<Tensor> {
        let counted = base::count_true(stream, &base::not(stream, &self.ignored)?)?;
        Ok(base::cast(stream, &counted, DType::F32)?.reshape([1])?)
    }

    /// Combines the losses of all tokens, which come in parts.
    pub(in crate::ops) fn reduced(
        &self,
        stream: &Stream,
        losses: &[Tensor],
        reduction: LossReduction,
    ) -> Result<Tensor> {
        let losses = match losses {
            [] => Tensor::empty(stream, DType::F32, [0])?,
            [all] => all.clone(),
            parts => base::cat(stream, &parts.iter().collect::<Vec<_>>(), 0)?,
        };
        let sum = || base::sum(stream, &losses, &[0], true);
        match reduction {
            LossReduction::None => Ok(losses),
            LossReduction::Sum => sum(),
            LossReduction::Mean => base::div(stream, &sum()?, &self.counted(stream)?),
        }
    }

    /// Returns the gradient of each token's loss, given that of the combined loss.
    pub(in crate::ops) fn factors(
        &self,
        stream: &Stream,
        dy: &Tensor,
        reduction: LossReduction,
    ) -> Result<Tensor> {
        let one = match reduction {
            LossReduction::None => return contiguous(stream, dy),
            LossReduction::Sum => dy.clone(),
            LossReduction::Mean => base::div(stream, dy, &self.counted(stream)?)?,
        };
        contiguous(stream, &one.expand(self.classes.shape())?)
    }
}
