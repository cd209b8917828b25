//! SwiGLU: `y = silu(gate) · up`, `silu(a) = a · σ(a)`, element by element
//! (Shazeer, arXiv:2002.05202).
//!
//! With `s = σ(gate)` the gradients are `d_gate = dy · up · s · (1 + gate · (1 − s))` and
//! `d_up = dy · gate · s`.

#[cfg(feature = "cpu")]
mod autodiff;
#[cfg(feature = "cpu")]
mod cpu;
mod reference;

#[cfg(feature = "cpu")]
pub use autodiff::{SwigluBackend, SwigluKernel};
pub use reference::reference;

use crate::dispatch::Reason;
use crate::ops::{query, refuse_unless_fused};
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::{GluKey, SemanticsKey};
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

declare_kernel! {
    /// The kernel `npu_fused_swiglu`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_swiglu",
        op: "glu",
        version: 1,
        summary: "SwiGLU of separate gate and up projections, with its gradients",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
        ],
    };
}

/// The operands of one call.
#[derive(Debug)]
pub struct Call {
    /// Gate and up, as the key lays them out.
    pub operands: Operands,
    /// The clamp's limit, if the key says that there is one.
    pub limit: Option<f64>,
    /// The sparsity of the gate, if the key says that there is one.
    pub sparsity: Option<f64>,
    /// What to compute.
    pub key: GluKey,
}

/// The tensors of a gated linear unit.
#[derive(Debug)]
pub enum Operands {
    /// Two tensors of one shape.
    Separate {
        /// The gate.
        gate: DispatchTensor,
        /// What it gates.
        up: DispatchTensor,
    },
    /// Both in one, `[.., 2n]`.
    Packed(DispatchTensor),
}

/// SwiGLU by the fused kernel of the tensors' device.
///
/// `gate` and `up` have one shape and dtype, and so has the result.
///
/// # Errors
/// The reason why no kernel can run: no implementation for the device, a dtype it does not take,
/// or different dtypes.
///
/// # Panics
/// `gate` and `up` have different shapes.
pub fn fused<const D: usize>(
    gate: Tensor<D>,
    up: Tensor<D>,
    key: GluKey,
) -> Result<Tensor<D>, Reason> {
    check(&gate, &up);
    let (gate, up) = (gate.into_dispatch(), up.into_dispatch());
    refuse_unless_fused(KERNEL, SemanticsKey::Glu(key), query([&gate, &up]))?;
    Ok(Tensor::from_dispatch(launch(gate, up, key)))
}

/// Runs the kernel. Dispatch has found one for these tensors.
#[cfg(feature = "cpu")]
pub(crate) fn launch(gate: DispatchTensor, up: DispatchTensor, key: GluKey) -> DispatchTensor {
    <burn::backend::Dispatch as SwigluBackend>::swiglu(gate, up, key)
}

#[cfg(not(feature = "cpu"))]
pub(crate) fn launch(_: DispatchTensor, _: DispatchTensor, _: GluKey) -> DispatchTensor {
    unreachable!("no implementation is compiled in, so dispatch found none")
}

/// Refuses shapes that have no SwiGLU.
#[track_caller]
pub(crate) fn check<const D: usize>(gate: &Tensor<D>, up: &Tensor<D>) {
    assert!(
        gate.dims() == up.dims(),
        "SwiGLU: the gate projection is {:?}, but the up projection is {:?}",
        gate.dims(),
        up.dims(),
    );
}
