//! Gated linear units on Flex: [`kernels_simd::glu`] on its tensors.

use super::{Each, Glu, Launch, sparsity};
use crate::cpu::{BASE, readable_rows, tensor, view};
use crate::ops::fused::{BackwardOn, FusedKernel, Gradients, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::operands::checked;
use crate::registry::{self, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::DType;
use kernels_simd::glu;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::Glu(Launch(OpLaunch::of::<Glu, Flex>())),
    accepts: |key| matches!(key, SemanticsKey::Glu(_)),
    ..BASE
};

impl FusedKernel<Glu> for Flex {
    fn forward(operands: Tensors<Glu, Self>, _: Option<&Each<bool>>) -> MadeOn<Self> {
        let dtype = checked(operands.dtype());
        let y = with(&operands, dtype, glu::forward);
        Made::new(tensor(y, operands.result()))
    }

    fn backward(backward: BackwardOn<Glu, Self>) -> Gradients<Glu, Self> {
        let operands = backward.operands();
        let dtype = checked(operands.dtype());
        let dy = readable_rows(backward.dy());
        let found = with(operands, dtype, |operands| {
            glu::backward(operands, &view(&dy))
        });
        let like = |values, of: &FlexTensor| tensor(values, of.layout().shape().clone());
        let of_up = found.up.zip(operands.up());
        Each {
            first: Some(like(found.gate, operands.first())),
            up: of_up.map(|(values, up)| like(values, up)),
        }
    }
}

/// Computes on operands whose rows can be read in place.
fn with<R>(
    operands: &Tensors<Glu, Flex>,
    dtype: DType,
    compute: impl FnOnce(&glu::Operands<'_>) -> R,
) -> R {
    let (first, up) = (
        readable_rows(operands.first()),
        operands.up().map(readable_rows),
    );
    let (settings, key) = (operands.settings(), operands.key());
    let sparsity = settings.sparsity;
    compute(&glu::Operands {
        gate: view(&first),
        up: up.as_ref().map(|up| view(up)),
        settings: glu::Settings {
            activation: key.activation,
            projections: key.projections,
            limit: settings.limit,
            up_offset: key.up_offset.value(),
            threshold: sparsity.and_then(|sparsity| sparsity::multiplier(sparsity, dtype)),
        },
    })
}
