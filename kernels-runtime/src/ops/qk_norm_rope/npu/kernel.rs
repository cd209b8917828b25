use super::decide;
use crate::npu::backend::BASE;
use crate::npu::limits::{ask, of_float};
use crate::ops::fused::{BackwardOn, FusedKernel, Gradients, MadeOn, OpLaunch, Tensors};
use crate::ops::operands::checked;
use crate::ops::qk_norm_rope::{Each, Launch, Pair, QkNormRope, Settings, composed};
use crate::ops::{rms_norm, rope};
use crate::registry::{self, Implementation};
use crate::semantics::{QkNorm, QkNormRopeKey, SemanticsKey};
use burn::backend::Remote;
use burn_cann::backend::CannBackend;

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    // The order in which the gradient of the weight is summed is not fixed.
    deterministic: false,
    accepts: |key| matches!(key, SemanticsKey::QkNormRope(_)),
    operators: Some(|key, float, _| {
        let key: QkNormRopeKey = key.known();
        let mut of_one = match key.norm {
            QkNorm::None => Vec::new(),
            _ => rms_norm::npu::operators(key.rms_norm(), of_float(float)),
        };
        of_one.extend(rope::npu::operators(key.rope()));
        Ok([&of_one[..], &of_one[..]].concat())
    }),
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
    launch: registry::Launch::QkNormRope(Launch(OpLaunch::of::<QkNormRope, Remote>())),
    ..BASE
};

impl FusedKernel<QkNormRope> for CannBackend {
    fn forward(operands: Tensors<QkNormRope, Self>, _: Option<&Each<bool>>) -> MadeOn<Self> {
        checked(operands.dtype());
        composed::forward::<Self>(operands)
    }

    fn backward(backward: BackwardOn<QkNormRope, Self>) -> Gradients<QkNormRope, Self> {
        composed::with_tables::<Self>(backward, composed::backward::<Self>)
    }
}
