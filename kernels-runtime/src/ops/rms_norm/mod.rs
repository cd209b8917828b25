//! RMSNorm: `y = x̂ · (offset + w)`, `x̂ = x · rstd`, `rstd = 1 / sqrt(mean(x²) + eps)` over the
//! last axis (Zhang & Sennrich, arXiv:1910.07467).
//!
//! With `g = offset + w` and `n` elements a row, the gradients are
//! `dx = rstd · (g·dy − x̂ · Σ(g·dy·x̂) / n)` and `dw = Σ_rows dy · x̂`.

#[cfg(feature = "cpu")]
mod autodiff;
#[cfg(feature = "cpu")]
mod cpu;
mod reference;

#[cfg(feature = "cpu")]
pub use autodiff::{RmsNormBackend, RmsNormKernel};
pub use reference::reference;

use crate::dispatch::Reason;
use crate::ops::{query, refuse_unless_fused};
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::{RmsNormKey, SemanticsKey};
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

declare_kernel! {
    /// The kernel `npu_fused_rmsnorm`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_rmsnorm",
        op: "rms_norm",
        version: 1,
        summary: "RMSNorm over the last axis, with its gradients",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
        ],
    };
}

/// The operands of one call.
#[derive(Debug)]
pub struct Call {
    /// `[.., n]`.
    pub x: DispatchTensor,
    /// `[n]`, if the key says that there is one.
    pub weight: Option<DispatchTensor>,
    /// Like `x`, if the key says that there is one.
    pub gate: Option<DispatchTensor>,
    /// Added to the mean square.
    pub eps: f64,
    /// Elements a group, if the key says that there are many.
    pub group_size: Option<usize>,
    /// What to compute.
    pub key: RmsNormKey,
}

/// RMSNorm by the fused kernel of the tensors' device.
///
/// `x` is `[.., n]`, `weight` `[n]`; the result has the shape and dtype of `x`. `eps` is added to
/// the mean square and has its unit.
///
/// # Errors
/// The reason why no kernel can run: no implementation for the device, a dtype it does not take,
/// or different dtypes.
///
/// # Panics
/// `weight` does not have as many elements as the last axis of `x`.
pub fn fused<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<1>,
    eps: f64,
    key: RmsNormKey,
) -> Result<Tensor<D>, Reason> {
    check(&x, &weight);
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    refuse_unless_fused(KERNEL, SemanticsKey::RmsNorm(key), query([&x, &weight]))?;
    Ok(Tensor::from_dispatch(launch(x, weight, eps, key)))
}

/// Runs the kernel. Dispatch has found one for these tensors.
#[cfg(feature = "cpu")]
pub(crate) fn launch(
    x: DispatchTensor,
    weight: DispatchTensor,
    eps: f64,
    key: RmsNormKey,
) -> DispatchTensor {
    <burn::backend::Dispatch as RmsNormBackend>::rms_norm(x, weight, eps, key)
}

#[cfg(not(feature = "cpu"))]
pub(crate) fn launch(
    _: DispatchTensor,
    _: DispatchTensor,
    _: f64,
    _: RmsNormKey,
) -> DispatchTensor {
    unreachable!("no implementation is compiled in, so dispatch found none")
}

/// Refuses shapes that have no RMSNorm.
#[track_caller]
pub(crate) fn check<const D: usize>(x: &Tensor<D>, weight: &Tensor<1>) {
    let (shape, [n]) = (x.dims(), weight.dims());
    assert!(
        shape.last() == Some(&n),
        "RMSNorm: the weight has {n} elements, but the last axis of x, {shape:?}, has {}",
        shape.last().copied().unwrap_or(0),
    );
}
