//! Rotary position embedding on Flex: [`kernels_simd::rope`] on its tensors.

use super::table_gradient::with_tables;
use super::{Each, Launch, Operands, Rope};
use crate::cpu::{BASE, readable_rows, tensor, view};
use crate::ops::fused::{BackwardOn, FusedKernel, Gradients, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::operands::checked;
use crate::registry::{self, Implementation};
use crate::semantics::{RopeKey, SemanticsKey};
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use kernels_simd::{Values, rope};

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::Rope(Launch(OpLaunch::of::<Rope, Flex>())),
    accepts: |key| matches!(key, SemanticsKey::Rope(_)),
    ..BASE
};

impl FusedKernel<Rope> for Flex {
    fn forward(operands: Tensors<Rope, Self>, _: Option<&Each<bool>>) -> MadeOn<Self> {
        Made::new(rotated(&operands, rope::forward))
    }

    fn backward(backward: BackwardOn<Rope, Self>) -> Gradients<Rope, Self> {
        with_tables::<Self>(backward, |backward| {
            Each::of_x(rotated(&Operands::back(backward), rope::backward))
        })
    }
}

fn rotated(
    operands: &Operands<FlexTensor>,
    rotate: fn(&rope::Operands<'_>) -> Values,
) -> FlexTensor {
    checked(operands.dtype());
    let [x, cos, sin] = [operands.x(), operands.cos(), operands.sin()].map(readable_rows);
    let values = rotate(&rope::Operands {
        x: view(&x),
        cos: view(&cos),
        sin: view(&sin),
        settings: settings(operands.key()),
    });
    tensor(values, operands.x().layout().shape().clone())
}

/// Returns what the arithmetic knows of a key.
pub(in crate::ops) fn settings(key: RopeKey) -> rope::Settings {
    rope::Settings {
        style: key.style,
        layout: key.layout,
        table: key.table,
    }
}
