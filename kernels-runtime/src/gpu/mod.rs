//! Code that the GPU kernels share: how an operation waits in Burn's fusion, launches, and parts of kernels.
//!
//! Kernels are written in CubeCL and run on every backend of it, through Burn's [`Cube`](burn::backend::Cube). The
//! feature `gpu` builds the one of wgpu, whose kernels are in WGSL.
//!
//! **Fusion.** Burn's fusion collects operations and runs them later, on the thread of the device. A kernel is one
//! operation of that stream ([`Deferred`]): it stays lazy, but what is fused before it ends there. The operands are
//! checked when the operation is called; at the launch, each tensor is compared with its description.
//!
//! **Limits of WebGPU.** A kernel has at most seven tensors and one buffer of numbers, 256 units in a cube, and 16 KiB of
//! shared memory. Backward passes with more tensors are several kernels.
//!
//! **Half types.** Elements in f16 and bf16 are read as they are, computed with in f32 and rounded where they are written
//! ([`elements`]). Sums and statistics of rows stay in f32. A device that does not compute in such a type itself gets no
//! kernel for it either: the reference could not run there.
//!
//! **Determinism.** No kernel adds with atomic operations. A sum over rows is divided by the shape alone into
//! [parts](rows::Parts), which a second kernel adds in order.

mod deferred;
pub(crate) mod elements;
pub(crate) mod entries;
mod fused;
pub(crate) mod launch;
pub(crate) mod parts;
pub(crate) mod rows;
mod sum;

pub(crate) use deferred::{Deferred, Like, Operand, like};
pub use fused::OnGpu;

use crate::device::DeviceKinds;
use crate::reason::Reason;
use crate::registry::{CapabilityRange, FloatType, Gradient, Implementation, Launch};
use burn::backend::{DispatchTensor, TensorMetadata};

/// The fields that all GPU implementations have in common. Each implementation adds the rest.
pub(crate) const BASE: Implementation = Implementation {
    device: DeviceKinds::GPU,
    name: "cubecl",
    dtypes: &[FloatType::F32, FloatType::F16, FloatType::Bf16],
    gradient: Gradient::Kernel,
    deterministic: true,
    fusion_barrier: true,
    capability: CapabilityRange::ANY,
    accepts: |_| false,
    limits: Some(|_, tensors| indexable(tensors)),
    operators: None,
    launch: Launch::Custom,
};

/// Returns [`Reason::Shape`] for tensors whose elements kernels can't count, in 32 bits.
pub(crate) fn indexable(tensors: &[&DispatchTensor]) -> Result<(), Reason> {
    let elements = |tensor: &&DispatchTensor| tensor.shape().num_elements();
    match tensors.iter().map(elements).max() {
        Some(most) if most > MOST_ELEMENTS => Err(Reason::Shape),
        _ => Ok(()),
    }
}

/// Returns [`Reason::Shape`] for a parameter that is too wide for its gradient.
pub(crate) fn columns(count: usize) -> Result<(), Reason> {
    match count <= MOST_COLUMNS {
        true => Ok(()),
        false => Err(Reason::Shape),
    }
}

/// Returns [`Reason::Shape`] for tensors whose elements kernels can't count, and for a first one whose rows are too wide for
/// the gradient of their weight.
pub(crate) fn normalisable(tensors: &[&DispatchTensor]) -> Result<(), Reason> {
    indexable(tensors)?;
    columns(tensors[0].shape().last().copied().unwrap_or_default())
}

/// The largest number of elements of a parameter whose gradient is a sum over rows. The kernel has a unit for each of them,
/// in cubes along one dimension, of which WebGPU has fewer than 65,536.
const MOST_COLUMNS: usize = 1 << 23;

/// The largest number of elements of a tensor. Places of elements are 32 bits, and the last cube may count beyond the end.
pub(crate) const MOST_ELEMENTS: usize = 1 << 31;
