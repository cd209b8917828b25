//! Soft capping, `y = cap · tanh(x / cap)` for each element, as Gemma 2 caps its attention scores and logits
//! (arXiv:2408.00118).
//!
//! The gradient is `dx = dy / cosh²(x / cap)`. Unlike `1 − tanh²`, that loses no digits where `y` is near the cap. Half types are
//! computed in f32 and rounded once.
//!
//! NPUs have no implementation: CANN has no such operator, and a composition of its operators is what the reference is.

pub(crate) mod cases;
#[cfg(feature = "cpu")]
mod cpu;
#[cfg(feature = "gpu")]
mod cube;
pub(crate) mod site;

use crate::ops::fused::declare::operation;
use crate::ops::fused::{Like, Saved};
use crate::ops::operands::{Described, Facts, Mismatch, checked, require};
use crate::ops::{compute_dtype, implementation, same_dtype_as};
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::SoftcapKey;
use burn::tensor::Tensor;

declare_kernel! {
    /// The kernel `npu_fused_softcap`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_softcap",
        op: "softcap",
        version: 1,
        summary: "Soft capping, such as of logits, and its gradient",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
            #[cfg(feature = "gpu")]
            cube::IMPLEMENTATION,
        ],
    };
}

pub(crate) mod key {
    use crate::semantics::Dtypes;
    use serde::{Deserialize, Serialize};
    use std::fmt;

    /// The key of soft capping. It has no variants: the cap belongs to each call.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub struct SoftcapKey {}

    impl Dtypes for SoftcapKey {}

    impl fmt::Display for SoftcapKey {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("softcap")
        }
    }
}

operation! {
    /// Soft capping.
    Softcap {
        name: "softcap",
        title: "Soft cap",
        kernel: "npu_fused_softcap",
        saved: 0,
        recomputed: true,
    }
    /// The checked operands of soft capping.
    Operands<T> {
        /// The tensor to cap, of any shape.
        x: One "x",
    }
    numbers {
        /// The bound of the results' magnitudes.
        cap: f64,
    }
}

impl<T: Described> Operands<T> {
    fn check(&self) -> Result<(), Mismatch> {
        let cap = self.cap as f32;
        require!(
            cap.is_normal() && cap > 0.0,
            "Soft cap: the cap is {}, but must be a positive number in the range of f32",
            self.cap
        );
        Ok(())
    }

    fn results(&self) -> [Like; 1] {
        [(self.x.shape(), self.x.dtype())]
    }

    fn saved(&self) -> [Saved; 0] {
        []
    }
}

/// Caps a tensor with the fused kernel of its device. The result has its shape and dtype.
///
/// # Errors
/// Returns the reason if no kernel can run: no implementation for the device, or a dtype it does not take.
///
/// # Panics
/// Panics if the cap is not a positive number in the range of f32.
#[track_caller]
pub fn fused<const D: usize>(x: Tensor<D>, cap: f64) -> Result<Tensor<D>, Reason> {
    let operands = checked(Operands::new(x.into_dispatch(), cap));
    let found = implementation(KERNEL, SoftcapKey {}, operands.all())?;
    Ok(Tensor::from_dispatch(Softcap::run(operands, found).y))
}

/// Caps a tensor with plain tensor operations, on any backend: the definition that kernels are verified against.
///
/// Half types are computed in f32 and rounded once. The result has the shape and dtype of `x`.
///
/// # Panics
/// Panics if the cap is not a positive number in the range of f32.
#[track_caller]
pub fn reference<const D: usize>(x: Tensor<D>, cap: f64) -> Tensor<D> {
    checked(Operands::new(Facts::from(&x), cap));
    let dtype = x.dtype();
    let x = same_dtype_as(x, compute_dtype(dtype));
    // Burn rounds the gradient of a division by a number to f32.
    same_dtype_as(x.mul_scalar(1.0 / cap).tanh().mul_scalar(cap), dtype)
}
