//! Routing on Flex: one pass over each row of logits, which keeps the best experts found so far.

mod backward;
mod choose;
mod forward;
mod largest;
mod scores;

use super::{Backward, RouterBackend, RouterKernel, Tensors};
use crate::cpu::{BASE, Element, dispatch_dtype};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::{RouterWeights, SemanticsKey};
use backward::backward;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use forward::forward;

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    name: "cpu-router",
    accepts: |key| matches!(key, SemanticsKey::MoeBlock(_)),
    launch: Launch::MoeBlock(super::launch),
    ..BASE
};

/// Runs `$body` with `$T` bound to the type of the logits and `$W` to that of the weights.
macro_rules! dispatch_dtypes {
    ($logits:expr, $routing:expr, ($T:ident, $W:ident) => $body:expr) => {
        dispatch_dtype!($logits, $T => match $routing.key().weights {
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
    fn route(operands: Tensors<Self>) -> (FlexTensor, FlexTensor) {
        let dtype = checked(operands.dtype());
        dispatch_dtypes!(dtype, operands.routing(), (T, W) => forward::<T, W>(&operands))
    }
}

impl RouterKernel for Flex {
    fn route_backward(given: Backward<FlexTensor, FlexTensor>) -> FlexTensor {
        dispatch_dtypes!(given.logits().dtype(), given.routing(), (T, W) => {
            backward::<T, W>(&given)
        })
    }
}
