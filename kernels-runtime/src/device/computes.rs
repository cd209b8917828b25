//! The half types that devices compute in.

use super::DeviceKind;
#[cfg(feature = "gpu")]
use burn::backend::TensorMetadata;
use burn::backend::{Backend, DeviceId, DeviceOps, Dispatch, DispatchDevice, DispatchTensorKind};
use burn::tensor::DType;
use std::cell::Cell;

/// The half types, in the order of the answers.
const HALVES: [DType; 2] = [DType::F16, DType::BF16];

thread_local! {
    /// The device that this thread asked last, with its answers. Asking Burn takes locks.
    static ASKED: Cell<Option<(DeviceId, [bool; 2])>> = const { Cell::new(None) };
}

/// Returns `false` if a device of CubeCL in this process does not compute in a half type: WebGPU has no bf16, and f16 only as
/// an extension. Only these devices are asked, only about half types, and asking opens the device. Others count as computing
/// in every type, because their implementations say which they take.
pub(crate) fn computes_in(device: &DispatchDevice, dtype: DType) -> bool {
    let Some(half) = HALVES.iter().position(|half| *half == dtype) else {
        return true;
    };
    let id = device.id();
    if !DeviceKind::is_of_cubecl(id) {
        return true;
    }
    let answers = match ASKED.get() {
        Some((asked, answers)) if asked == id => answers,
        _ => HALVES.map(|half| Dispatch::supports_dtype(device, half)),
    };
    ASKED.set(Some((id, answers)));
    answers[half]
}

/// Returns the same for the device of a tensor. This allocates nothing for tensors on the CPU.
#[cfg(feature = "gpu")]
#[inline]
pub(crate) fn device_computes_in(tensor: &DispatchTensorKind, dtype: DType) -> bool {
    match tensor {
        DispatchTensorKind::Autodiff(inner) => device_computes_in(inner, dtype),
        DispatchTensorKind::Cube(_) => computes_in(&tensor.device(), dtype),
        _ => true,
    }
}

/// Returns `true`: without kernels for GPUs, there is nothing to ask for.
#[cfg(not(feature = "gpu"))]
#[inline]
pub(crate) fn device_computes_in(_: &DispatchTensorKind, _: DType) -> bool {
    true
}
