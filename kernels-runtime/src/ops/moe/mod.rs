//! Mixtures of experts.
//!
//! * [`router`]: the choice of experts for a token, and their weights.
//! * [`experts`]: the experts of a layer, from the router's choice to the weighted sum.
//! * [`grouped_matmul`]: the product of rows grouped by expert with each expert's weights.
//! * [`permute`] and [`unpermute`]: moving tokens to rows sorted by expert, and back.
//! * [`load_balancing_loss`]: the auxiliary loss that keeps experts evenly used.

pub(crate) mod block;
mod chosen;
pub mod experts;
pub mod grouped_matmul;
pub mod permute;
pub mod router;
pub mod unpermute;

#[cfg(feature = "gpu")]
mod cube;
#[cfg(feature = "cpu")]
pub(in crate::ops) mod integers;
mod load_balancing;
mod many;
#[cfg(feature = "cpu")]
mod readable;
mod sort;
mod steps;
mod top_k;

pub use load_balancing::{LoadBalance, load_balancing_loss};
pub use many::Stack;
pub use permute::{Permuted, moe_permute};
pub use router::{Routed, Routing, route};
pub(crate) use steps::STEPS;
pub use unpermute::moe_unpermute;

use crate::device::{DeviceKind, DeviceKinds, KernelOp};
use crate::dispatch::{Query, TensorType};
use crate::reason::Reason;
use crate::registry::FloatType;

/// Evaluates a check of CANN's operators. In a build without them, there is no implementation.
macro_rules! on_npu {
    ($takes:expr) => {{
        #[cfg(feature = "npu")]
        let taken = $takes;
        #[cfg(not(feature = "npu"))]
        let taken = Err($crate::reason::Reason::NoImplementation);
        taken
    }};
}
use on_npu;

/// Evaluates a check of the kernels for GPUs. In a build without them, there is no implementation.
macro_rules! on_gpu {
    ($takes:expr) => {{
        #[cfg(feature = "gpu")]
        let taken = $takes;
        #[cfg(not(feature = "gpu"))]
        let taken = Err($crate::reason::Reason::NoImplementation);
        taken
    }};
}
use on_gpu;

/// Checks that the CPU kernels take the processor and the type of a call.
#[cfg(feature = "cpu")]
fn on_cpu(query: Query) -> Result<(), Reason> {
    use crate::cpu::BASE;
    if !BASE.capability.contains(query.capability) {
        return Err(Reason::Capability);
    }
    match query.tensors {
        TensorType::Float(float)
            if BASE.dtypes.contains(&float) && query.served.computes_in(float.dtype()) =>
        {
            Ok(())
        }
        TensorType::Mixed => Err(Reason::MixedDtypes),
        _ => Err(Reason::Dtype),
    }
}

/// Returns that there is no kernel: this build has none for the CPU.
#[cfg(not(feature = "cpu"))]
fn on_cpu(_: Query) -> Result<(), Reason> {
    Err(Reason::NoImplementation)
}

/// Checks that a kernel of this module takes the tensors, and returns the reason if not. CPU kernels take the processors and
/// types of all, and those of GPUs f32 and the half types; `npu` and `gpu` decide the rest for an NPU and a GPU.
fn refuse(
    op: KernelOp,
    query: Query,
    npu: impl FnOnce() -> Result<(), Reason>,
    gpu: impl FnOnce() -> Result<(), Reason>,
) -> Result<(), Reason> {
    if cfg!(feature = "gpu") && DeviceKinds::GPU.contains(query.device) {
        return match query.tensors {
            _ if !query.served.offers(op) => Err(Reason::NotServed),
            TensorType::Float(FloatType::F32 | FloatType::F16 | FloatType::Bf16) => gpu(),
            TensorType::Mixed => Err(Reason::MixedDtypes),
            TensorType::Float(FloatType::F64)
            | TensorType::NotOnDevice(_)
            | TensorType::Unsupported => Err(Reason::Dtype),
        };
    }
    match query.tensors {
        _ if cfg!(feature = "npu") && query.device == DeviceKind::Npu => {
            if query.served.offers(op) {
                npu()
            } else {
                Err(Reason::NotServed)
            }
        }
        _ if query.device != DeviceKind::Cpu => Err(Reason::NoImplementation),
        _ if !query.served.offers(op) => Err(Reason::NotServed),
        _ => on_cpu(query),
    }
}
