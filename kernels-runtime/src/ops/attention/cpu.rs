//! Attention on Flex: [`kernels_simd::attention`] on its tensors.

use super::{Attention, Each, Launch};
use crate::cpu::{BASE, tensor, view};
use crate::ops::fused::{BackwardOn, FusedKernel, Gradients, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::operands::checked;
use crate::registry::{self, Implementation};
use crate::semantics::{HeadLayout, SemanticsKey};
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use kernels_simd::attention;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::Attention(Launch(OpLaunch::of::<Attention, Flex>())),
    accepts: |key| matches!(key, SemanticsKey::Attention(_)),
    ..BASE
};

impl FusedKernel<Attention> for Flex {
    fn forward(operands: Tensors<Attention, Self>, wanted: Option<&Each<bool>>) -> MadeOn<Self> {
        checked(operands.dtype());
        let found = Readable::new(&operands).with(&operands, attention::forward);
        let y = tensor(found.y, operands.result());
        let made = Made::new(y.clone());
        match wanted {
            Some(_) => made.saving([y, tensor(found.lse, operands.lse().0)]),
            None => made,
        }
    }

    fn backward(backward: BackwardOn<Attention, Self>) -> Gradients<Attention, Self> {
        let (operands, [y, lse]) = (backward.operands(), backward.saved());
        checked(operands.dtype());
        let layout = operands.key().layout;
        let [dy, y] = [backward.dy(), y].map(|tensor| readable(tensor, layout));
        let lse = lse.to_contiguous();
        let found = Readable::new(operands).with(operands, |operands| {
            let given = [&view(&dy), &view(&y), &view(&lse)];
            attention::backward(operands, given, backward.wanted().bias)
        });
        let like = |values, of: &FlexTensor| tensor(values, of.layout().shape().clone());
        let like_one = |values, of: Option<&FlexTensor>| of.map(|of| like(values, of));
        Each {
            q: Some(like(found.q, operands.q())),
            k: Some(like(found.k, operands.k())),
            v: Some(like(found.v, operands.v())),
            bias: found.bias.and_then(|d| like_one(d, operands.bias())),
            sinks: found.sinks.and_then(|d| like_one(d, operands.sinks())),
        }
    }
}

/// Returns a tensor in the layout `bnsd` whose rows are contiguous, and whose axes all have positive strides: the tensor
/// itself or a copy.
fn readable(tensor: &FlexTensor, layout: HeadLayout) -> FlexTensor {
    let tensor = match layout {
        HeadLayout::Bnsd => tensor.clone(),
        HeadLayout::Bsnd => tensor.transpose(1, 2),
    };
    let strides = tensor.layout().strides();
    let contiguous = strides[3] == 1 || tensor.layout().shape()[3] <= 1;
    match contiguous && strides.iter().all(|stride| *stride >= 0) {
        true => tensor,
        false => tensor.to_contiguous(),
    }
}

/// Owned tensors that can be read in place.
struct Readable {
    heads: [FlexTensor; 3],
    bias: Option<FlexTensor>,
    sinks: Option<FlexTensor>,
}

impl Readable {
    fn new(operands: &Tensors<Attention, Flex>) -> Self {
        let layout = operands.key().layout;
        let heads = [operands.q(), operands.k(), operands.v()];
        Self {
            heads: heads.map(|tensor| readable(tensor, layout)),
            bias: operands.bias().map(FlexTensor::to_contiguous),
            sinks: operands.sinks().map(FlexTensor::to_contiguous),
        }
    }

    fn with<R>(
        &self,
        operands: &Tensors<Attention, Flex>,
        compute: impl FnOnce(&attention::Operands<'_>) -> R,
    ) -> R {
        let settings = operands.settings();
        let visible = operands.visible();
        let [q, k, v] = self.heads.each_ref().map(view);
        compute(&attention::Operands {
            q,
            k,
            v,
            bias: self.bias.as_ref().map(view),
            sinks: self.sinks.as_ref().map(view),
            visible: &|sequence, query| visible.of(sequence, query),
            scale: settings.scale_of(operands.sizes().width),
            cap: settings.cap,
            layout: operands.key().layout,
        })
    }
}
