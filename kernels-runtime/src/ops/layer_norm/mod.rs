//! LayerNorm: `y = x̂ · w + b`, `x̂ = (x − mean(x)) · rstd`, `rstd = 1 / sqrt(var(x) + eps)` over the last axis, with the
//! variance that divides by the number of elements (Ba, Kiros & Hinton, arXiv:1607.06450).
//!
//! With `a = w · dy` and means over the `n` elements of a row, the gradients are
//! `dx = rstd · (a − mean(a) − x̂ · mean(a · x̂))`, `dw = Σ_rows dy · x̂` and `db = Σ_rows dy`.

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
mod reference;
pub(crate) mod site;

#[cfg(feature = "remote")]
pub(crate) use operands::remote;
pub use operands::{Each, Inputs, Launch, LayerNorm, Operands};
pub use reference::reference;

use crate::ops::implementation;
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::LayerNormKey;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

declare_kernel! {
    /// The kernel `npu_fused_layernorm`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_layernorm",
        op: "layer_norm",
        version: 1,
        summary: "LayerNorm over the last axis, with a bias or without, and its gradients",
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
    /// The number that is added to the variance, in the unit of the variance.
    pub eps: f64,
}

/// Computes LayerNorm with the fused kernel of the tensors' device. The result has the shape and dtype of `x`.
///
/// # Errors
/// Returns the reason if no kernel can run: no implementation for the device, a dtype it does not take,
/// or different dtypes.
///
/// # Panics
/// Panics if the inputs don't match the key, or if the shapes don't fit together.
#[track_caller]
pub fn fused<const D: usize>(
    inputs: Inputs<D>,
    settings: Settings,
    key: LayerNormKey,
) -> Result<Tensor<D>, Reason> {
    let operands = Operands::of(inputs, settings, key);
    let found = implementation(KERNEL, key, operands.all())?;
    Ok(Tensor::from_dispatch(LayerNorm::run(operands, found).y))
}
