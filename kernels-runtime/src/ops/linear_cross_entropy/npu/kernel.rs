use crate::mode::Mode;
use crate::npu::Seen;
use crate::npu::backend::{BASE, give, take};
use crate::npu::limits::{ask, indices};
use crate::ops::cross_entropy::npu::{any, losses};
use crate::ops::linear_cross_entropy::{
    self, Backward, Gradients, Kept, LinearCrossEntropyBackend, LinearCrossEntropyKernel, Operands,
    Tensors, Wanted, npu,
};
use crate::ops::operands::checked;
use crate::registry::{FloatType, Implementation, Launch};
use crate::semantics::{LinearCrossEntropyKey, LossReduction, SemanticsKey, Shift};
use burn_cann::backend::{CannBackend, CannTensor};
use std::convert::Infallible;

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    accepts: |key| matches!(key, SemanticsKey::LinearCrossEntropy(_)),
    limits: Some(|key, tensors| {
        let key: LinearCrossEntropyKey = key.known();
        ask(tensors, |platform, mut specs| {
            let (hidden, weight) = (specs.one(), specs.one());
            let bias = specs.one_if(key.shift == Shift::Bias);
            let tokens = hidden.shape().first().copied().unwrap_or(0);
            let targets = Seen(indices(&[tokens])?);
            let settings = any(key.cap);
            let operands = Operands::new(hidden, weight, bias, targets, settings, key)?;
            npu::decide(platform, &operands)
        })
    }),
    operators: Some(|key, float, mode| {
        let LinearCrossEntropyKey {
            cap,
            reduction,
            shift,
            ..
        } = key.known();
        let casts = if float == FloatType::F32 { 0 } else { 2 };
        let bias = (shift == Shift::Bias).then_some("aclnnAdd");
        let gradient: &[_] = match (mode, reduction) {
            (Mode::Inference, _) | (_, LossReduction::None) => &[],
            _ => &["aclnnCrossEntropyLossGrad", "aclnnMatmul", "aclnnMatmul"],
        };
        let casts = std::iter::repeat_n("aclnnCast", casts);
        let logits = casts.chain(["aclnnMatmul"]).chain(bias);
        Ok(logits
            .chain(losses(cap))
            .chain(gradient.iter().copied())
            .collect())
    }),
    launch: Launch::LinearCrossEntropy(linear_cross_entropy::launch),
    ..BASE
};

impl LinearCrossEntropyBackend for CannBackend {
    fn linear_cross_entropy(operands: Tensors<Self>) -> CannTensor {
        Self::linear_cross_entropy_forward(operands, Wanted::default()).0
    }
}

impl LinearCrossEntropyKernel for CannBackend {
    fn linear_cross_entropy_forward(
        operands: Tensors<Self>,
        wanted: Wanted,
    ) -> (CannTensor, Gradients<CannTensor>) {
        checked(operands.dtype());
        let kept = checked(operands.kept(wanted));
        let stream = operands.hidden().stream().clone();
        let operands = operands.map(Seen::from, Seen::from);
        let (loss, gradients) = take(npu::forward(&stream, &operands, kept));
        (give(Ok(loss)), gradients.map(|tensor| give(Ok(tensor))))
    }

    type WeightFactors = Infallible;

    fn linear_cross_entropy_weight(factors: Infallible, _: CannTensor) -> CannTensor {
        match factors {}
    }

    fn linear_cross_entropy_scale(kept: Kept<CannTensor>) -> Gradients<CannTensor> {
        let stream = kept.dy().stream().clone();
        let dtype = kept.dtype();
        let (gradients, dy) = kept.into_parts();
        let kept = Kept::new(gradients.map(Seen::from), Seen::from(dy), dtype);
        let gradients = take(npu::scale(&stream, checked(kept)));
        gradients.map(|tensor| give(Ok(tensor)))
    }

    fn linear_cross_entropy_backward(
        backward: Backward<CannTensor, CannTensor>,
    ) -> Gradients<CannTensor> {
        let stream = backward.operands().hidden().stream().clone();
        let backward = backward.map(Seen::from, Seen::from);
        let gradients = take(npu::backward(&stream, &backward));
        gradients.map(|tensor| give(Ok(tensor)))
    }
}
