use crate::npu::Seen;
use crate::npu::backend::{BASE, give, take};
use crate::npu::limits::ask;
use crate::ops::attention::{
    self, AttentionKernel, Backward, Gradients, Lengths, Operands, Settings, Tensors, npu,
};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::{
    AttentionKey, AttentionMask, AttentionWindow, SemanticsKey, SequenceLengths, Sinks,
};
use burn_cann::backend::{CannBackend, CannTensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    // The order in which the gradients of keys and values are summed is not fixed.
    deterministic: false,
    accepts: |key| matches!(key, SemanticsKey::Attention(key) if npu::is_dispatched(*key)),
    limits: Some(|key, tensors| {
        let key = AttentionKey {
            // Lengths, which the tensors don't tell, change the mask, but whatever they are, some mask computes them.
            lengths: SequenceLengths::None,
            ..key.known()
        };
        ask(tensors, |platform, mut specs| {
            let required = std::array::from_fn(|_| specs.one());
            let sinks = specs.one_if(key.sink == Sinks::Learned);
            let settings = Settings {
                // The smallest sizes stand for the site's, which the tensors don't tell.
                window: (key.window != AttentionWindow::None).then_some(1),
                prefix: (key.mask == AttentionMask::Prefix).then_some(1),
                ..Settings::default()
            };
            let operands = Operands::new(required, None, sinks, settings, Lengths::default(), key)?;
            npu::decide(platform, &operands)
        })
    }),
    launch: Launch::Attention(attention::launch),
    ..BASE
};

impl AttentionKernel for CannBackend {
    fn attention_forward(operands: Tensors<Self>) -> (CannTensor, CannTensor) {
        checked(operands.dtype());
        let stream = operands.q().stream().clone();
        let (y, lse) = take(npu::forward(&stream, &operands.map(Seen::from)));
        (give(Ok(y)), give(Ok(lse)))
    }

    fn attention_inference(operands: Tensors<Self>) -> CannTensor {
        checked(operands.dtype());
        let stream = operands.q().stream().clone();
        give(npu::infer(&stream, &operands.map(Seen::from)))
    }

    fn attention_backward(backward: Backward<CannTensor>) -> Gradients<CannTensor> {
        let stream = backward.operands().q().stream().clone();
        let gradients = take(npu::backward(&stream, &backward.map(Seen::from)));
        gradients.map(|tensor| give(Ok(tensor)))
    }
}
