//! Routing on Flex: one pass over each row of logits, which keeps the best experts as it goes.

mod backward;
mod choose;
mod forward;
mod largest;
mod scores;

use super::{RouterBackend, RouterKernel, Routing};
use crate::cpu::{Element, dispatch_dtype};
use crate::dispatch::DeviceKind;
use crate::registry::{CapabilityRange, FloatType, Implementation, Launch};
use crate::semantics::{RouterWeights, SemanticsKey};
use backward::backward;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::IntDType;
use forward::forward;

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    device: DeviceKind::Cpu,
    name: "cpu-router",
    dtypes: &FloatType::ALL,
    gradient: true,
    deterministic: true,
    fusion_barrier: false,
    capability: CapabilityRange::ANY,
    accepts: |key| matches!(key, SemanticsKey::MoeBlock(_)),
    limits: None,
    launch: Launch::Router(super::launch),
};

/// Runs `$body` with `$T` bound to the type of the logits and `$W` to that of the weights.
macro_rules! dispatch_dtypes {
    ($logits:expr, $routing:expr, ($T:ident, $W:ident) => $body:expr) => {
        dispatch_dtype!($logits.dtype(), $T => match $routing.key().weights {
            RouterWeights::Logits => {
                type $W = $T;
                $body
            }
            RouterWeights::Wide => {
                type $W = <$T as Element>::Acc;
                $body
            }
        })
    };
}

impl RouterBackend for Flex {
    fn route(
        logits: FlexTensor,
        bias: FlexTensor,
        routing: Routing,
        ints: IntDType,
    ) -> (FlexTensor, FlexTensor) {
        dispatch_dtypes!(logits, routing, (T, W) => {
            forward::<T, W>(&logits, &bias, &routing, ints)
        })
    }
}

impl RouterKernel for Flex {
    fn route_backward(
        dw: FlexTensor,
        logits: FlexTensor,
        indices: FlexTensor,
        routing: Routing,
    ) -> FlexTensor {
        dispatch_dtypes!(logits, routing, (T, W) => {
            backward::<T, W>(&dw, &logits, &indices, &routing)
        })
    }
}
