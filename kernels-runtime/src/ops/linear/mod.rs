//! A linear layer: `y = x · w + b` over the last axis.
//!
//! With `dy`, the gradient of `y`, and sums over all rows, the gradients are `dx = dy · wᵀ`, `dw = xᵀ · dy` and
//! `db = Σ dy`. On half types, products are summed in f32 and rounded once. Where the machine multiplies pairs of bf16,
//! no operand is converted.
//!
//! On processors with [AMX](multiplies_in_tiles), large products in f32 take numbers as sums of three in bf16. Their errors are
//! not larger than those of products in f32, but numbers below 2^-102 that stand in a matrix with larger ones may lose
//! digits: up to 2^-86 for each term.

pub(crate) mod cases;
#[cfg(feature = "cpu")]
mod cpu;
pub(crate) mod key;
pub(crate) mod live;
#[cfg(feature = "npu")]
pub mod npu;
mod operands;
mod parts;
mod reference;
pub(crate) mod site;

#[cfg(feature = "remote")]
pub(crate) use operands::remote;
pub use operands::{Each, Inputs, Launch, Linear, Operands, Sizes};
pub use parts::in_parts;
pub use reference::reference;

use crate::ops::implementation;
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::LinearKey;
use burn::tensor::Tensor;

declare_kernel! {
    /// The kernel `npu_fused_linear`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_linear",
        op: "linear",
        version: 1,
        summary: "Linear layer with sums in f32 and one rounding, and its gradients",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
            #[cfg(feature = "npu")]
            npu::IMPLEMENTATION,
        ],
    };
}

/// Returns whether products are computed in tiles of AMX on this machine: those of matrices in bf16, and those of large ones in
/// f32, in which each number is the sum of three in bf16.
pub fn multiplies_in_tiles() -> bool {
    #[cfg(feature = "cpu")]
    return kernels_simd::linear::multiplies_in_tiles();
    #[cfg(not(feature = "cpu"))]
    false
}

/// Computes the linear layer with the fused kernel of the tensors' device. The result is `[.., outputs]`, in the dtype
/// of `x`.
///
/// # Errors
/// Returns the reason if no kernel can run: no implementation for the device, a dtype it does not take, or different
/// dtypes.
///
/// # Panics
/// Panics if the inputs don't match the key, or if the shapes don't fit together.
#[track_caller]
pub fn fused<const D: usize>(inputs: Inputs<D>, key: LinearKey) -> Result<Tensor<D>, Reason> {
    let operands = Operands::of(inputs, key);
    let found = implementation(KERNEL, key, operands.all())?;
    Ok(Tensor::from_dispatch(Linear::run(operands, found).y))
}
