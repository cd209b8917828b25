//! Sequences of one length, with sinks or without.

use super::super::{Attention, Each, Operands};
use super::hidden::Hidden;
use super::ranges::{Blind, Ranges};
use super::{Plan, attended, gradients, lse, tensors};
use crate::npu::{Refused, Result, Seen, Specified, base};
use crate::ops::fused::Backward;
use burn_cann::ops::attention as cann;
use burn_cann::{DType, Platform, Spec, Stream, Tensor};

/// Checks the operands of both directions.
pub(super) fn check<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>>,
    plan: Plan,
) -> Result<(), Refused> {
    let (sizes, settings) = (operands.sizes(), settings(operands, plan));
    let square = Spec::contiguous(DType::Bool, [2048, 2048])?;
    let full = Spec::contiguous(DType::Bool, [sizes.queries, sizes.keys])?;
    let mask = plan.mask.with(&square, &full);
    let [q, k, v] = [operands.q(), operands.k(), operands.v()].map(|tensor| tensor.spec());
    let found = match operands.sinks() {
        None => cann::check(platform, q, k, v, mask, settings)?,
        Some(sinks) => {
            let sinks = Spec::contiguous(DType::F32, sinks.spec().shape())?;
            cann::check_with_sinks(platform, [q, k, v], &sinks, mask, settings)?
        }
    };
    let (y, statistics) = (&found.output, &found.statistics);
    let given = [y, y, statistics, statistics];
    cann::check_backward(platform, [q, k, v], mask, settings, given)?;
    Ok(())
}

fn settings<T: Specified>(operands: &Operands<Seen<T>>, plan: Plan) -> cann::Settings {
    let sizes = operands.sizes();
    cann::Settings {
        axes: plan.axes,
        heads: sizes.heads,
        scale: operands.settings().scale_of(sizes.width),
    }
}

/// A call, forward or backward.
pub(super) struct Dense<'a> {
    operands: &'a Operands<Seen<Tensor>>,
    settings: cann::Settings,
    hidden: Hidden,
    mask: Option<Tensor>,
    blind: Option<Blind>,
    /// The sinks in f32.
    sinks: Option<Tensor>,
}

impl<'a> Dense<'a> {
    pub(super) fn new(
        stream: &Stream,
        operands: &'a Operands<Seen<Tensor>>,
        plan: Plan,
    ) -> Result<Self> {
        let ranges = (plan.mask == Hidden::Full).then(|| Ranges::new(operands));
        let blind = ranges.as_ref().map(|ranges| ranges.blind(stream));
        let sinks = operands
            .sinks()
            .map(|sinks| base::cast(stream, sinks, DType::F32));
        Ok(Self {
            operands,
            settings: settings(operands, plan),
            hidden: plan.mask,
            mask: plan.mask.tensor(stream, ranges.as_ref())?,
            blind: blind.transpose()?.flatten(),
            sinks: sinks.transpose()?,
        })
    }

    pub(super) fn forward(&self, stream: &Stream) -> Result<(Tensor, Tensor)> {
        let [q, k, v] = tensors(self.operands);
        let (mask, settings) = (self.mask(), self.settings);
        let found = match &self.sinks {
            None => cann::attention(stream, q, k, v, mask, settings)?,
            Some(sinks) => cann::attention_with_sinks(stream, [q, k, v], sinks, mask, settings)?,
        };
        let lse = lse(stream, &found)?;
        if let Some(blind) = &self.blind {
            let layout = self.operands.key().layout;
            blind.clear(stream, &found.output, Some(&lse), layout)?;
        }
        Ok((found.output, lse))
    }

    pub(super) fn backward(
        &self,
        stream: &Stream,
        backward: &Backward<Attention, Seen<Tensor>>,
    ) -> Result<Each<Option<Tensor>>> {
        let [y, lse] = backward.saved();
        let attended = attended(stream, y.0.clone(), lse)?;
        if let Some(blind) = &self.blind {
            blind.raise(stream, &attended.softmax_max)?;
        }
        let (dy, tensors) = (backward.dy(), tensors(self.operands));
        let (mask, settings) = (self.mask(), self.settings);
        let Some(sinks) = &self.sinks else {
            let found = cann::attention_backward(stream, dy, tensors, mask, settings, &attended)?;
            return Ok(gradients(found, None));
        };
        let (found, d_sinks) = cann::attention_with_sinks_backward(
            stream, dy, tensors, sinks, mask, settings, &attended,
        )?;
        let d_sinks = base::cast(stream, &d_sinks, self.operands.q().dtype())?;
        Ok(gradients(found, Some(d_sinks)))
    }

    fn mask(&self) -> cann::Mask<&Tensor> {
        match &self.mask {
            None => cann::Mask::None,
            Some(mask) => self.hidden.with(mask, mask),
        }
    }
}
