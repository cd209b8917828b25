//! RMSNorm: `y = x̂ · (offset + w) + bias`, `x̂ = x · rstd`, `rstd = 1 / sqrt(mean(x²) + eps)` over the
//! last axis, or over each group of it (Zhang & Sennrich, arXiv:1910.07467).
//!
//! With `g = offset + w` (1 without a weight) and `n` elements in a group, the gradients are
//! `dx = rstd · (g·dy − x̂ · Σ(g·dy·x̂) / n)`, `dw = Σ_rows dy · x̂` and `d_bias = Σ_rows dy`. Most norms have no bias,
//! and one with a gate never has.
//!
//! A gate multiplies by `s = silu(z) = z · σ(z)`, whose slope is `s' = σ(z) · (1 + z · (1 − σ(z)))`:
//! * after the norm, `y = x̂ · g · s`: `dy · s` replaces `dy` above, and `dz = dy · x̂ · g · s'`
//!   (Qwen3-Next);
//! * before the norm, `v = x · s` replaces `x`: `dx = dv · s` and `dz = dv · x · s'` (Mamba 2,
//!   arXiv:2405.21060).

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
pub(crate) mod site;

pub(in crate::ops) use operands::fits;
#[cfg(feature = "remote")]
pub(crate) use operands::remote;
pub use operands::{Each, Inputs, Launch, Operands, RmsNorm};
pub(in crate::ops) use reference::of_all;
pub use reference::{reference, reference_with_bias};

use crate::ops::implementation;
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::RmsNormKey;
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

declare_kernel! {
    /// The kernel `npu_fused_rmsnorm`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_rmsnorm",
        op: "rms_norm",
        version: 1,
        summary: "RMSNorm over the last axis, plain, gated, biased or in groups, with its gradients",
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
    run(Operands::of(inputs, settings, key))
}

/// Computes RMSNorm as [`fused`] does and adds a bias, `[n]`.
///
/// # Errors
/// Returns the reason as [`fused`] does.
///
/// # Panics
/// Panics as [`fused`] does.
#[track_caller]
pub fn fused_with_bias<const D: usize>(
    inputs: Inputs<D>,
    bias: Tensor<1>,
    settings: Settings,
    key: RmsNormKey,
) -> Result<Tensor<D>, Reason> {
    run(Operands::of_all(inputs, Some(bias), settings, key))
}

fn run<const D: usize>(operands: Operands<DispatchTensor>) -> Result<Tensor<D>, Reason> {
    let key = operands.key();
    let found = implementation(KERNEL, key, operands.all())?;
    Ok(Tensor::from_dispatch(RmsNorm::run(operands, found).y))
}
