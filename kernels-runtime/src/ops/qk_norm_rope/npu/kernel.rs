use super::decide;
use crate::npu::backend::BASE;
use crate::npu::limits::ask;
use crate::ops::operands::checked;
use crate::ops::qk_norm_rope::{
    self, Backward, Gradients, Pair, QkNormRopeKernel, Settings, Tensors, composed,
};
use crate::ops::rms_norm;
use crate::registry::{Implementation, Launch};
use crate::semantics::{QkNorm, QkNormRopeKey, SemanticsKey};
use burn_cann::backend::{CannBackend, CannTensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    // The order in which the gradient of the weight is summed is not fixed.
    deterministic: false,
    accepts: |key| match key {
        SemanticsKey::QkNormRope(key) => {
            key.norm == QkNorm::None || rms_norm::npu::is_dispatched(key.rms_norm())
        }
        _ => false,
    },
    limits: Some(|key, tensors| {
        let key: QkNormRopeKey = key.known();
        let has_norm = key.norm != QkNorm::None;
        let settings = Settings {
            eps: has_norm.then_some(1e-6),
        };
        ask(tensors, |platform, mut specs| {
            let both = [specs.one(), specs.one()];
            let weights = [specs.one_if(has_norm), specs.one_if(has_norm)];
            let tables = [specs.one(), specs.one()];
            let [q, k] = Pair::new(both, weights, tables, settings, key)?.split();
            decide(platform, &q)?;
            decide(platform, &k)
        })
    }),
    launch: Launch::QkNormRope(qk_norm_rope::launch),
    ..BASE
};

impl QkNormRopeKernel for CannBackend {
    fn qk_norm_rope_forward(operands: Tensors<Self>) -> CannTensor {
        checked(operands.dtype());
        composed::forward::<Self>(operands)
    }

    fn qk_norm_rope_backward(backward: Backward<CannTensor>) -> Gradients<CannTensor> {
        composed::backward::<Self>(backward)
    }
}
