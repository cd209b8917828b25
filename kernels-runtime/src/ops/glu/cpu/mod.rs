//! Gated linear units on Flex: one pass over memory, nothing in between is stored.
//!
//! The loops over elements are compiled for every activation and dtype ([`loops`]), but not for
//! every variant: those differ in how a row is read, changed and written ([`rows`]), which happens
//! in the cache. Two contiguous rows without a change go into the loop as they are.

mod adjust;
mod backward;
mod forward;
mod loops;
mod rows;

use super::autodiff::Tensors;
use super::{GluBackend, GluKernel, Settings};
use crate::cpu::dispatch_dtype;
use crate::dispatch::DeviceKind;
use crate::registry::{CapabilityRange, FloatType, Implementation, Launch};
use crate::semantics::{GluKey, SemanticsKey};
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    device: DeviceKind::Cpu,
    name: "cpu-simd",
    dtypes: &FloatType::ALL,
    gradient: true,
    deterministic: true,
    fusion_barrier: false,
    capability: CapabilityRange::ANY,
    limits: None,
    launch: Launch::Glu(super::launch),
    accepts: |key| matches!(key, SemanticsKey::Glu(_)),
};

impl GluBackend for Flex {
    fn glu(tensors: Tensors<Self>, settings: Settings, key: GluKey) -> FlexTensor {
        Self::glu_forward(tensors, settings, key)
    }
}

impl GluKernel for Flex {
    fn glu_forward(tensors: Tensors<Self>, settings: Settings, key: GluKey) -> FlexTensor {
        dispatch_dtype!(dtype(&tensors), T => forward::forward::<T>(&tensors, settings, key))
    }

    fn glu_backward(
        dy: FlexTensor,
        tensors: Tensors<Self>,
        settings: Settings,
        key: GluKey,
    ) -> Tensors<Self> {
        dispatch_dtype!(
            dtype(&tensors),
            T => backward::backward::<T>(&dy, &tensors, settings, key)
        )
    }
}

fn dtype(tensors: &Tensors<Flex>) -> burn::tensor::DType {
    match tensors {
        Tensors::Separate { gate, .. } => gate.dtype(),
        Tensors::Packed(gate_up) => gate_up.dtype(),
    }
}
