//! The losses of some tokens' logits in f32, and the gradients of these logits.

use super::targets::Targets;
use crate::npu::{Refused, Result, base};
use crate::ops::cross_entropy::Settings;
use burn_cann::ops::cross_entropy::{
    self as cann, Reduction, check as check_loss, check_grad, cross_entropy, cross_entropy_grad,
};
use burn_cann::{DType, Platform, Spec, Stream, Tensor};

/// One loss for each token. No target is ignored by CANN: all are classes.
const EACH: cann::Settings = cann::Settings {
    reduction: Reduction::None,
    ignored: Settings::IGNORE_INDEX,
};

/// Checks that the operators take logits of these sizes.
pub(in crate::ops) fn check(
    platform: &Platform,
    [tokens, classes]: [usize; 2],
    settings: Settings,
) -> Result<(), Refused> {
    // A call without tokens runs no operator, but the device must have it: one token is checked instead.
    let tokens = tokens.max(1);
    let logits = Spec::contiguous(DType::F32, [tokens, classes])?;
    let targets = Spec::contiguous(DType::I64, [tokens])?;
    let (each, smoothing) = (EACH.reduction, settings.label_smoothing);
    let found = check_loss(platform, &logits, &targets, None, each, smoothing)?;
    check_grad(platform, &found.loss, &found.log_prob, &targets, None, each)?;
    Ok(())
}

/// The losses of some tokens, and the tensors that the gradient of their logits needs.
pub(in crate::ops) struct Losses {
    /// The loss of each token. It is 0 for tokens that don't count.
    pub(in crate::ops) each: Tensor,
    targets: Targets,
    settings: Settings,
    /// The logits, capped if there is a cap.
    logits: Tensor,
    log_prob: Tensor,
}

impl Losses {
    /// Computes the losses of logits in f32, which are contiguous.
    pub(in crate::ops) fn new(
        stream: &Stream,
        logits: Tensor,
        targets: Targets,
        settings: Settings,
    ) -> Result<Self> {
        let logits = match settings.cap {
            Some(cap) => base::capped(stream, &logits, cap)?,
            None => logits,
        };
        let (classes, smoothing) = (targets.classes(), settings.label_smoothing);
        let found = cross_entropy(stream, &logits, classes, None, EACH, smoothing)?;
        let mut losses = Self {
            each: found.loss,
            targets,
            settings,
            logits,
            log_prob: found.log_prob,
        };
        if settings.z_loss != 0.0 {
            let lse = losses.lse(stream)?;
            let square = base::mul(stream, &lse, &lse)?;
            let z_loss = base::mul_number(stream, &square, settings.z_loss)?;
            losses.each = base::add(stream, &losses.each, &z_loss)?;
        }
        losses.targets.clear(stream, &losses.each)?;
        Ok(losses)
    }

    /// Returns the logarithm of each token's sum of exponentials: the difference between a logit and the logarithm of
    /// its probability, of the largest logit, which is finite if the result is.
    fn lse(&self, stream: &Stream) -> Result<Tensor> {
        let (largest, place) = base::largest(stream, &self.logits, 1)?;
        let log_prob = base::gather(stream, &self.log_prob, 1, &place)?;
        let lse = base::sub(stream, &largest, &log_prob)?;
        Ok(lse.squeeze(1)?)
    }

    /// Returns the gradient of the logits, given the gradient of each token's loss.
    pub(in crate::ops) fn gradient(self, stream: &Stream, factors: &Tensor) -> Result<Tensor> {
        let terms = self.terms(stream, factors)?;
        let classes = self.targets.classes();
        let mut gradient =
            cross_entropy_grad(stream, &terms.pairs, &self.log_prob, classes, None, EACH)?;
        if let Some(more) = terms.target {
            let (place, more) = (classes.unsqueeze(1)?, more.unsqueeze(1)?);
            gradient = base::scatter_add(stream, &gradient, 1, &place, &more)?;
        }
        if let Some(less) = terms.all {
            gradient = base::sub(stream, &gradient, &less.unsqueeze(1)?)?;
        }
        if let Some(cap) = self.settings.cap {
            let slope = base::cap_slope(stream, &self.logits, cap)?;
            gradient = base::mul(stream, &gradient, &slope)?;
        }
        self.targets.clear(stream, &gradient)?;
        Ok(gradient)
    }

    /// Returns the terms of the gradient, `g · (p · (1 + 2 · z · lse) − ε / classes − (1 − ε) · [class is t])`.
    fn terms(&self, stream: &Stream, factors: &Tensor) -> Result<Terms> {
        let settings = self.settings;
        let mut terms = Terms {
            pairs: factors.clone(),
            target: None,
            all: None,
        };
        if settings.label_smoothing != 0.0 {
            let smooth = base::mul_number(stream, factors, settings.label_smoothing)?;
            let share = 1.0 / self.logits.shape()[1] as f64;
            terms.all = Some(base::mul_number(stream, &smooth, share)?);
            terms.target = Some(smooth);
        }
        if settings.z_loss != 0.0 {
            let lse = base::mul_number(stream, &self.lse(stream)?, 2.0 * settings.z_loss)?;
            let more = base::mul(stream, factors, &lse)?;
            terms.pairs = base::add(stream, factors, &more)?;
            terms.target = Some(match terms.target {
                Some(smooth) => base::add(stream, &smooth, &more)?,
                None => more,
            });
        }
        Ok(terms)
    }
}

/// The terms of a gradient, one number of each for a token.
struct Terms {
    /// The factor of `p − [class is t]`, which CANN's gradient computes.
    pairs: Tensor,
    /// The number that is added for the target, if there is one.
    target: Option<Tensor>,
    /// The number that is subtracted for all classes, if there is one.
    all: Option<Tensor>,
}
