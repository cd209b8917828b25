//! RMSNorm on Flex: [`kernels_simd::rms_norm`] on its tensors.

use super::{Each, Launch, Operands, RmsNorm};
use crate::cpu::{BASE, gradient_sum, readable_rows, tensor, view};
use crate::ops::fused::{BackwardOn, FusedKernel, Gradients, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::operands::checked;
use crate::registry::{self, Implementation};
use crate::semantics::{Gating, SemanticsKey};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use kernels_simd::{Values, rms_norm};
use std::borrow::Cow;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::RmsNorm(Launch(OpLaunch::of::<RmsNorm, Flex>())),
    accepts: |key| matches!(key, SemanticsKey::RmsNorm(_)),
    ..BASE
};

impl FusedKernel<RmsNorm> for Flex {
    fn forward(operands: Tensors<RmsNorm, Self>, _: Option<&Each<bool>>) -> MadeOn<Self> {
        checked(operands.dtype());
        let found = forward(&operands, None);
        Made::new(found.y).saving([found.rstd])
    }

    fn backward(backward: BackwardOn<RmsNorm, Self>) -> Gradients<RmsNorm, Self> {
        backward_of(&backward, None)
    }

    fn backward_added(
        backward: BackwardOn<RmsNorm, Self>,
        before: FlexTensor,
    ) -> Gradients<RmsNorm, Self> {
        checked(backward.check_before(&before));
        match backward.operands().key().gating {
            Gating::None => backward_of(&backward, Some(&before)),
            Gating::AfterNorm | Gating::BeforeNorm => {
                let gradients = backward_of(&backward, None);
                Each {
                    x: gradients.x.map(|x| gradient_sum(x, &before)),
                    ..gradients
                }
            }
        }
    }
}

/// The results of a forward pass.
pub(in crate::ops) struct Normalised {
    pub(in crate::ops) y: FlexTensor,
    pub(in crate::ops) rstd: FlexTensor,
    /// The sum of `x` and the residual, if there is a residual.
    pub(in crate::ops) sum: Option<FlexTensor>,
}

/// Normalises `x`, or the sum of `x` and a residual.
pub(in crate::ops) fn forward(
    operands: &Operands<FlexTensor>,
    residual: Option<&FlexTensor>,
) -> Normalised {
    let readable = Readable::new(operands);
    let residual = residual.map(readable_rows);
    let residual = residual.as_deref().map(view);
    let found = rms_norm::forward(&readable.views(operands), residual.as_ref());
    let like_x = |values| tensor(values, operands.x().layout().shape().clone());
    Normalised {
        y: like_x(found.y),
        rstd: tensor(found.rstd, operands.rstd().0),
        sum: found.sum.map(like_x),
    }
}

/// Returns the gradients. Without a gate, `before` is added to that of `x`.
fn backward_of(
    backward: &BackwardOn<RmsNorm, Flex>,
    before: Option<&FlexTensor>,
) -> Each<Option<FlexTensor>> {
    let (operands, [rstd]) = (backward.operands(), backward.saved());
    checked(operands.dtype());
    let readable = Readable::new(operands);
    let dy = readable_rows(backward.dy());
    let rstd = rstd.to_contiguous();
    let before = before.map(readable_rows);
    let found = rms_norm::backward(&rms_norm::Backward {
        operands: readable.views(operands),
        dy: view(&dy),
        rstd: view(&rstd),
        before: before.as_deref().map(view),
        wants_weight: backward.wanted().weight,
        wants_bias: backward.wanted().bias,
    });
    let like_x = |values| tensor(values, operands.x().layout().shape().clone());
    let parameter = |values: Values| {
        let n = Shape::new([values.len()]);
        tensor(values, n)
    };
    Each {
        weight: found.weight.map(parameter),
        bias: found.bias.map(parameter),
        gate: found.gate.map(like_x),
        x: Some(like_x(found.x)),
    }
}

/// The tensors of a call whose rows can be read in place.
struct Readable<'a> {
    x: Cow<'a, FlexTensor>,
    weight: Option<FlexTensor>,
    gate: Option<Cow<'a, FlexTensor>>,
    bias: Option<FlexTensor>,
}

impl<'a> Readable<'a> {
    fn new(operands: &'a Operands<FlexTensor>) -> Self {
        Self {
            x: readable_rows(operands.x()),
            weight: operands.weight().map(FlexTensor::to_contiguous),
            gate: operands.gate().map(readable_rows),
            bias: operands.bias().map(FlexTensor::to_contiguous),
        }
    }

    fn views(&self, operands: &Operands<FlexTensor>) -> rms_norm::Operands<'_> {
        let (settings, key) = (operands.settings(), operands.key());
        rms_norm::Operands {
            x: view(&self.x),
            weight: self.weight.as_ref().map(view),
            gate: self.gate.as_deref().map(view),
            bias: self.bias.as_ref().map(view),
            settings: rms_norm::Settings {
                eps: settings.eps,
                group_size: settings.group_size,
                offset: key.offset.value(),
                rounding: key.rounding,
                gating: key.gating,
            },
        }
    }
}
