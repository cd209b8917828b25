//! Gated delta rules on Flex: [`kernels_simd::gated_delta`] on its tensors.

use super::{Each, GatedDeltaRule, Launch, Operands};
use crate::cpu::{BASE, empty, tensor, view};
use crate::ops::compute_dtype;
use crate::ops::fused::{BackwardOn, FusedKernel, Gradients, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::operands::checked;
use crate::registry::{self, Implementation};
use crate::semantics::{KeyNorm, SemanticsKey};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use kernels_simd::{Values, gated_delta};

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::GatedDeltaRule(Launch(OpLaunch::of::<GatedDeltaRule, Flex>())),
    accepts: |key| matches!(key, SemanticsKey::GatedDeltaRule(_)),
    ..BASE
};

impl FusedKernel<GatedDeltaRule> for Flex {
    fn forward(
        operands: Tensors<GatedDeltaRule, Self>,
        wanted: Option<&Each<bool>>,
    ) -> MadeOn<Self> {
        let dtype = checked(operands.dtype());
        let sizes = operands.sizes();
        if sizes.heads == 0 {
            // The number of sequences may be any.
            let wide = compute_dtype(dtype);
            let kept = wanted.map(|_| empty(sizes.inverses(), wide));
            let made = Made::new(operands.v().clone()).saving(kept);
            return made.and([empty(sizes.states(), wide)]);
        }
        let found = Readable::new(&operands).with(&operands, |operands| {
            gated_delta::forward(operands, wanted.is_some())
        });
        let kept = found.inverses.into_iter();
        let kept = kept.map(|kept| tensor(kept, Shape::new(sizes.inverses())));
        let state = tensor(found.state, Shape::new(sizes.states()));
        Made::new(like(found.y, operands.v()))
            .and([state])
            .saving(kept)
    }

    fn backward(backward: BackwardOn<GatedDeltaRule, Self>) -> Gradients<GatedDeltaRule, Self> {
        let (operands, [inverses]) = (backward.operands(), backward.saved());
        checked(operands.dtype());
        if operands.sizes().heads == 0 {
            // None of them has elements.
            let same = |tensor: &FlexTensor| Some(tensor.clone());
            return Each {
                q: same(operands.q()),
                k: same(operands.k()),
                v: same(operands.v()),
                g: same(operands.g()),
                beta: same(operands.beta()),
                state: operands.state().cloned(),
            };
        }
        let dy = readable(backward.dy());
        let [dstate, inverses] = [&backward.others()[0], inverses].map(FlexTensor::to_contiguous);
        let ends = gated_delta::Ends {
            dy: view(&dy),
            dstate: Some(view(&dstate)),
            inverses: view(&inverses),
        };
        let found = Readable::new(operands)
            .with(operands, |operands| gated_delta::backward(operands, &ends));
        Each {
            q: Some(like(found.q, operands.q())),
            k: Some(like(found.k, operands.k())),
            v: Some(like(found.v, operands.v())),
            g: Some(like(found.g, operands.g())),
            beta: Some(like(found.beta, operands.beta())),
            state: operands.state().map(|state| like(found.state, state)),
        }
    }
}

fn like(values: Values, of: &FlexTensor) -> FlexTensor {
    tensor(values, of.layout().shape().clone())
}

/// Returns a tensor whose heads are contiguous, and whose axes all have positive strides: the tensor itself or a
/// copy. A tensor of three axes has numbers for heads.
fn readable(tensor: &FlexTensor) -> FlexTensor {
    let (shape, strides) = (tensor.layout().shape(), tensor.layout().strides());
    let contiguous = shape.num_dims() == 3 || strides[3] == 1 || shape[3] <= 1;
    match contiguous && strides.iter().all(|stride| *stride >= 0) {
        true => tensor.clone(),
        false => tensor.to_contiguous(),
    }
}

/// Owned tensors that can be read in place.
struct Readable {
    heads: [FlexTensor; 5],
    state: Option<FlexTensor>,
}

impl Readable {
    fn new(operands: &Operands<FlexTensor>) -> Self {
        let heads = [
            operands.q(),
            operands.k(),
            operands.v(),
            operands.g(),
            operands.beta(),
        ];
        Self {
            heads: heads.map(readable),
            state: operands.state().map(FlexTensor::to_contiguous),
        }
    }

    fn with<R>(
        &self,
        operands: &Operands<FlexTensor>,
        compute: impl FnOnce(&gated_delta::Operands<'_>) -> R,
    ) -> R {
        let (lengths, key) = (operands.lengths(), operands.key());
        let [q, k, v, g, beta] = self.heads.each_ref().map(view);
        compute(&gated_delta::Operands {
            q,
            k,
            v,
            g,
            beta,
            state: self.state.as_ref().map(view),
            lengths: lengths.get(),
            scale: operands.settings().scale_of(operands.sizes().key_width),
            normalise: key.norm == KeyNorm::L2,
        })
    }
}
