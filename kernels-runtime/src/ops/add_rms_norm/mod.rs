//! The residual sum and its RMSNorm: `sum = x + residual`, `y = rms_norm(sum)`, both returned.
//!
//! In a transformer with pre-norm layers, a norm reads each residual sum. The fused kernel writes the sum once and
//! normalises it while it is in the cache. The norm is [`rms_norm`](super::rms_norm), with all its variants.
//!
//! On half types, the sum is rounded to the dtype, like the sum of two tensors, and the rounded sum is normalised. Both
//! terms get the gradient of `sum`. The gradient of the norm is that of [`rms_norm`](super::rms_norm) at `sum`.
//! Autodiff adds it to the gradients from other uses of `sum`.

pub(crate) mod cases;
#[cfg(feature = "cpu")]
mod cpu;
#[cfg(feature = "gpu")]
mod cube;
pub(crate) mod key;
pub(crate) mod live;
#[cfg(feature = "npu")]
pub mod npu;
mod operands;
mod record;
mod reference;
pub(crate) mod site;

pub use super::rms_norm::Settings;
pub use operands::{AddRmsNorm, Each, Inputs, Launch, Operands};
pub use reference::reference;

use crate::ops::fused::{FusedKernel, Made};
use crate::ops::implementation;
use crate::ops::operands::array;
use crate::ops::rms_norm::RmsNorm;
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::AddRmsNormKey;
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

declare_kernel! {
    /// The kernel `npu_fused_add_rmsnorm`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_add_rmsnorm",
        op: "add_rms_norm",
        version: 1,
        summary: "The sum of two tensors and its RMSNorm, with their gradients",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
            #[cfg(feature = "gpu")]
            cube::IMPLEMENTATION,
            #[cfg(feature = "npu")]
            npu::IMPLEMENTATION,
        ],
    };
}

/// Adds and normalises with the fused kernel of the tensors' device. Returns `y` and `sum`, each of the shape and dtype
/// of `x`.
///
/// # Errors
/// Returns the reason if no kernel can run: no implementation for the device, a dtype it does not take,
/// or different dtypes.
///
/// # Panics
/// Panics if the inputs or settings don't match the key, or if the shapes don't fit together.
#[track_caller]
pub fn fused<const D: usize>(
    inputs: Inputs<D>,
    settings: Settings,
    key: AddRmsNormKey,
) -> Result<(Tensor<D>, Tensor<D>), Reason> {
    let operands = Operands::of(inputs, settings, key);
    let found = implementation(KERNEL, key, operands.all())?;
    Ok(both(AddRmsNorm::run(operands, found)))
}

/// Returns `y` and `sum`.
fn both<const D: usize>(made: Made<DispatchTensor>) -> (Tensor<D>, Tensor<D>) {
    let [sum] = array(made.others);
    (Tensor::from_dispatch(made.y), Tensor::from_dispatch(sum))
}

/// The server's handlers. Gradients are sent as RMSNorm's messages, so a server with this operation handles those too.
#[cfg(feature = "remote")]
pub(crate) mod remote {
    use super::{AddRmsNormKernel, operands};
    use crate::ops::rms_norm;
    use crate::remote::Kernels;
    use burn::backend::ir::BackendIr;

    pub(crate) fn handlers<B: BackendIr + AddRmsNormKernel>(kernels: Kernels<B>) -> Kernels<B> {
        operands::remote::handlers(rms_norm::remote::handlers(kernels))
    }
}

/// The kernels of a backend.
pub trait AddRmsNormKernel: FusedKernel<RmsNorm> + FusedKernel<AddRmsNorm> {}

impl<B: FusedKernel<RmsNorm> + FusedKernel<AddRmsNorm>> AddRmsNormKernel for B {}
