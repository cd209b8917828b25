//! RMSNorm: `y = x̂ · (offset + w)`, `x̂ = x · rstd`, `rstd = 1 / sqrt(mean(x²) + eps)` over the
//! last axis, or over each group of it (Zhang & Sennrich, arXiv:1910.07467).
//!
//! With `g = offset + w` (1 without a weight) and `n` elements in a group, the gradients are
//! `dx = rstd · (g·dy − x̂ · Σ(g·dy·x̂) / n)` and `dw = Σ_rows dy · x̂`.
//!
//! A gate multiplies by `s = silu(z) = z · σ(z)`, whose slope is `s' = σ(z) · (1 + z · (1 − σ(z)))`:
//! * after the norm, `y = x̂ · g · s`: `dy · s` replaces `dy` above, and `dz = dy · x̂ · g · s'`
//!   (Qwen3-Next);
//! * before the norm, `v = x · s` replaces `x`: `dx = dv · s` and `dz = dv · x · s'` (Mamba 2,
//!   arXiv:2405.21060).

mod autodiff;
pub(crate) mod cases;
#[cfg(feature = "cpu")]
pub(in crate::ops) mod cpu;
#[cfg(feature = "gpu")]
pub(in crate::ops) mod cube;
pub(crate) mod key;
pub(crate) mod live;
#[cfg(feature = "npu")]
pub mod npu;
mod operands;
mod reference;
#[cfg(feature = "remote")]
pub(crate) mod remote;
pub(crate) mod site;

pub(in crate::ops) use autodiff::record;
pub use autodiff::{Gradients, RmsNormBackend, RmsNormKernel, Tensors};
use operands::check;
pub use operands::{Backward, Operands, Parts};
pub use reference::reference;

use crate::ops::define::launched;
use crate::ops::implementation;
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::RmsNormKey;
use burn::backend::{Dispatch, DispatchTensor};
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

declare_kernel! {
    /// The kernel `npu_fused_rmsnorm`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_rmsnorm",
        op: "rms_norm",
        version: 1,
        summary: "RMSNorm over the last axis, plain, gated or in groups, with its gradients",
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

/// The tensors of one call, all of one dtype.
#[derive(Clone, Debug)]
pub struct Inputs<const D: usize> {
    /// The tensor to normalise, `[.., n]`.
    pub x: Tensor<D>,
    /// The weight, `[n]`. Present exactly if the key has a weight.
    pub weight: Option<Tensor<1>>,
    /// The gate, with the shape of `x`. Present exactly if the key has a gate.
    pub gate: Option<Tensor<D>>,
}

/// The numbers of one call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The number that is added to the mean square, in the unit of the mean square.
    pub eps: f64,
    /// The number of elements in a group, a divisor of `n`. Present exactly if the key has many groups.
    pub group_size: Option<usize>,
}

/// Computes RMSNorm with the fused kernel of the tensors' device. The result has the shape and dtype of `x`.
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
    key: RmsNormKey,
) -> Result<Tensor<D>, Reason> {
    let operands = Operands::of(inputs, settings, key);
    let found = implementation(KERNEL, key, operands.all())?;
    Ok(Tensor::from_dispatch(operands.run(found)))
}

launched!(Operands<DispatchTensor> => DispatchTensor, <Dispatch as RmsNormBackend>::rms_norm);
