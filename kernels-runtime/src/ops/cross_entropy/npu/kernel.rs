use crate::npu::Seen;
use crate::npu::backend::{BASE, give, take};
use crate::npu::limits::{ask, indices};
use crate::ops::cross_entropy::{
    self, Backward, CrossEntropyBackend, CrossEntropyKernel, Operands, Settings, Tensors, npu,
};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::{CrossEntropyKey, LogitCap, SemanticsKey};
use burn_cann::backend::{CannBackend, CannTensor};
use burn_cann::{DType, Tensor};

/// Arbitrary numbers for a decision, which depends on none of them. `limits` functions don't receive the numbers.
pub(in crate::ops) fn any(cap: LogitCap) -> Settings {
    Settings {
        cap: (cap == LogitCap::Tanh).then_some(1.0),
        ..Settings::default()
    }
}

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    accepts: |key| matches!(key, SemanticsKey::CrossEntropy(_)),
    limits: Some(|key, tensors| {
        let key: CrossEntropyKey = key.known();
        ask(tensors, |platform, mut specs| {
            let logits = specs.one();
            let tokens = logits.shape().first().copied().unwrap_or(0);
            let targets = Seen(indices(&[tokens])?);
            let operands = Operands::new(logits, targets, any(key.cap), key)?;
            npu::decide(platform, &operands)
        })
    }),
    launch: Launch::CrossEntropy(cross_entropy::launch),
    ..BASE
};

impl CrossEntropyBackend for CannBackend {
    fn cross_entropy(operands: Tensors<Self>) -> CannTensor {
        checked(operands.dtype());
        let stream = operands.logits().stream().clone();
        let operands = operands.map(Seen::from, Seen::from);
        give(npu::forward(&stream, &operands))
    }
}

impl CrossEntropyKernel for CannBackend {
    fn cross_entropy_forward(operands: Tensors<Self>) -> (CannTensor, CannTensor) {
        let stream = operands.logits().stream().clone();
        let loss = Self::cross_entropy(operands);
        // The backward pass computes the logarithms again.
        let lse = take(Tensor::empty(&stream, DType::F32, [0]).map_err(Into::into));
        (loss, give(Ok(lse)))
    }

    fn cross_entropy_backward(backward: Backward<CannTensor, CannTensor>) -> CannTensor {
        let stream = backward.operands().logits().stream().clone();
        let backward = backward.map(Seen::from, Seen::from);
        give(npu::backward(&stream, &backward))
    }
}
