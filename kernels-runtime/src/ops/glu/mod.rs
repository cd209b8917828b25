//! Gated linear units: `y = activation(gate) · (up_offset + up)`, element by element
//! (Shazeer, arXiv:2002.05202). With silu this is SwiGLU.
//!
//! With the activation `f` and `u = up_offset + up`, the gradients are `d_gate = dy · u · f'(gate)`
//! and `d_up = dy · f(gate)`. Kernels multiply: where ReLU's slope is zero and `dy · u` is infinite or NaN, `d_gate` is NaN,
//! while plain operations leave it out. Two steps may change gate and up before the activation, in this order:
//! * A clamp to `limit`: `min(gate, limit)`, `min(max(up, −limit), limit)`. The gradient is zero
//!   outside the limit and at exactly the limit, as in PyTorch 2.15.
//! * The Gaussian top-k (Gemma 3n): `e = max(gate − c, 0)` with `c = μ + m · σ`, where `μ` and `σ` are
//!   the mean and population standard deviation of the `n` gates of a row, and `m = Φ⁻¹(sparsity)`. With
//!   `S = Σ d_e` over the row's gates above `c`, the gradient is
//!   `d_gate = [gate > c] · d_e − S/n − S · m · (gate − μ) / (n · σ)`. The last term is zero where
//!   `σ = 0`.

pub(crate) mod cases;
#[cfg(feature = "cpu")]
mod cpu;
#[cfg(feature = "gpu")]
pub(in crate::ops) mod cube;
pub(crate) mod key;
pub(crate) mod live;
#[cfg(feature = "npu")]
pub mod npu;
mod operands;
pub(crate) mod packing;
mod reference;
pub(crate) mod site;
mod sparsity;

use operands::check;
pub use operands::{Each, Glu, Launch, Operands, Projected};
pub use packing::{Operands as PackingOperands, PackingGlu};
pub use reference::reference;
pub(in crate::ops) use reference::{activate, at_most, unpack, within};

use crate::ops::fused::FusedKernel;
use crate::ops::implementation;
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::GluKey;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

declare_kernel! {
    /// The kernel `npu_fused_swiglu`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_swiglu",
        op: "glu",
        version: 1,
        summary: "Gated linear units (SwiGLU, GeGLU and others), packed or not, with their gradients",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
            #[cfg(feature = "gpu")]
            cube::IMPLEMENTATION,
            #[cfg(feature = "npu")]
            npu::INFERENCE,
            #[cfg(feature = "npu")]
            npu::PACKING,
            #[cfg(feature = "npu")]
            npu::TRAINING,
        ],
    };
}

/// The tensors of one call, all of one dtype, laid out as the key states.
pub type Inputs<const D: usize> = Projected<Tensor<D>>;

/// The numbers of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The limit of the clamp, not negative. Present exactly if the key has a clamp.
    pub limit: Option<f64>,
    /// The fraction of the gate that a Gaussian top-k sets to zero, below 1. Present exactly if the key
    /// has a top-k. At 0 or below, the gate stays unchanged.
    pub sparsity: Option<f64>,
}

/// Computes a gated linear unit with the fused kernel of the tensors' device.
///
/// The result has the dtype of the inputs and the shape of the gate: `[.., n]` for packed inputs of
/// `[.., 2n]`.
///
/// # Errors
/// Returns the reason if no kernel can run: no implementation for the device, a dtype it does not take,
/// or different dtypes.
///
/// # Panics
/// Panics if the inputs or settings don't match the key, if gate and up have different shapes, or if a
/// number is outside its range.
#[track_caller]
pub fn fused<const D: usize>(
    inputs: Inputs<D>,
    settings: Settings,
    key: GluKey,
) -> Result<Tensor<D>, Reason> {
    let operands = Operands::of(inputs, settings, key);
    let found = implementation(KERNEL, key, operands.all())?;
    Ok(Tensor::from_dispatch(Glu::run(operands, found).y))
}

/// The kernels of a backend.
pub trait GluKernel: FusedKernel<Glu> + FusedKernel<PackingGlu> {}

impl<B: FusedKernel<Glu> + FusedKernel<PackingGlu>> GluKernel for B {}

#[cfg(feature = "remote")]
pub(crate) mod remote {
    use super::{GluKernel, operands, packing};
    use crate::remote::Kernels;
    use burn::backend::ir::BackendIr;

    /// Adds a server's handlers of both operations.
    pub(crate) fn handlers<B: BackendIr + GluKernel>(kernels: Kernels<B>) -> Kernels<B> {
        packing::remote::handlers(operands::remote::handlers(kernels))
    }
}
