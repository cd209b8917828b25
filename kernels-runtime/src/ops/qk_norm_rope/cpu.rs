//! The norm and rotation on Flex: [`kernels_simd::qk_norm_rope`] on its tensors.
//!
//! Without a norm, the rotation's own kernel does all: it reads tensors of any strides. With one, rotations that read
//! neighbours and write halves run after the norm's kernel, because no model family has both.

use super::{Each, Launch, Operands, QkNormRope, composed};
use crate::cpu::{BASE, readable_rows, tensor, view};
use crate::ops::fused::{BackwardOn, FusedKernel, Gradients, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::operands::checked;
use crate::ops::rope;
use crate::registry::{self, Implementation};
use crate::semantics::{QkNorm, RopeStyle, SemanticsKey};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use kernels_simd::qk_norm_rope;
use std::borrow::Cow;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::QkNormRope(Launch(OpLaunch::of::<QkNormRope, Flex>())),
    accepts: |key| matches!(key, SemanticsKey::QkNormRope(_)),
    ..BASE
};

impl FusedKernel<QkNormRope> for Flex {
    fn forward(operands: Tensors<QkNormRope, Self>, _: Option<&Each<bool>>) -> MadeOn<Self> {
        checked(operands.dtype());
        match Readable::new(&operands) {
            None => composed::forward::<Self>(operands),
            Some(readable) => {
                let values = qk_norm_rope::forward(&readable.views());
                Made::new(tensor(values, operands.result().0))
            }
        }
    }

    fn backward(backward: BackwardOn<QkNormRope, Self>) -> Gradients<QkNormRope, Self> {
        checked(backward.operands().dtype());
        composed::with_tables::<Self>(backward, of_heads)
    }
}

/// Returns the gradients of `x` and, if it is wanted, of the weight.
fn of_heads(backward: BackwardOn<QkNormRope, Flex>) -> Each<Option<FlexTensor>> {
    let operands = backward.operands();
    let Some(readable) = Readable::new(operands) else {
        return composed::backward::<Flex>(backward);
    };
    let dy = readable_rows(backward.dy());
    let wanted = backward.wanted().weight;
    let found = qk_norm_rope::backward(&readable.views(), &view(&dy), wanted);
    let x = tensor(found.x, operands.x().layout().shape().clone());
    let weight = found.weight.map(|values| {
        let n = Shape::new([values.len()]);
        tensor(values, n)
    });
    Each::of_heads(Some(x), weight)
}

/// The tensors of a call whose rows can be read in place.
struct Readable<'a> {
    x: Cow<'a, FlexTensor>,
    weight: Option<FlexTensor>,
    cos: Cow<'a, FlexTensor>,
    sin: Cow<'a, FlexTensor>,
    settings: qk_norm_rope::Settings,
}

impl<'a> Readable<'a> {
    /// Returns the operands of the kernels here, or `None` for a call that others do.
    fn new(operands: &'a Operands<FlexTensor>) -> Option<Self> {
        let (x, key) = (operands.x(), operands.key());
        let eps = operands.settings().eps?;
        let together = match key.norm {
            QkNorm::None => return None,
            QkNorm::Head => false,
            QkNorm::Row => true,
        };
        if key.style == RopeStyle::InterleavedToHalf {
            return None;
        }
        let x = match together && !x.is_contiguous() {
            // The heads of a token are one row.
            true => Cow::Owned(x.to_contiguous()),
            false => readable_rows(x),
        };
        Some(Self {
            x,
            weight: operands.weight().map(FlexTensor::to_contiguous),
            cos: readable_rows(operands.cos()),
            sin: readable_rows(operands.sin()),
            settings: qk_norm_rope::Settings {
                eps,
                offset: key.offset.value(),
                rounding: key.rounding,
                together,
                rotation: rope::cpu::settings(key.rope()),
            },
        })
    }

    fn views(&self) -> qk_norm_rope::Operands<'_> {
        qk_norm_rope::Operands {
            x: view(&self.x),
            weight: self.weight.as_ref().map(view),
            cos: view(&self.cos),
            sin: view(&self.sin),
            settings: self.settings,
        }
    }
}
