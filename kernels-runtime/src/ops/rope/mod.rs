//! Rotary position embedding in the "rotate half" style (Su et al., arXiv:2104.09864).
//!
//! With a head split in halves `x = [x1, x2]`, `y = x · cos + [−x2, x1] · sin`. The gradients are
//! `dx1 = dy1 · cos1 + dy2 · sin2`, `dx2 = dy2 · cos2 − dy1 · sin1`, and, summed over the heads
//! (and the batch where the table is shared), `d_cos = dy · x`, `d_sin = dy · [−x2, x1]`.

#[cfg(feature = "cpu")]
mod autodiff;
#[cfg(feature = "cpu")]
mod cpu;
mod reference;
mod table;

#[cfg(feature = "cpu")]
pub use autodiff::{RopeBackend, RopeKernel};
pub use reference::reference;
pub use table::RopeTable;

use crate::dispatch::Reason;
use crate::ops::{query, refuse_unless_fused};
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::{RopeKey, SemanticsKey};
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

declare_kernel! {
    /// The kernel `npu_fused_rope`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_rope",
        op: "rope",
        version: 1,
        summary: "Rotary position embedding of queries and keys (rotate half), with its gradients",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
        ],
    };
}

/// The operands of one call.
#[derive(Debug)]
pub struct Call {
    /// Queries, in the layout of the key.
    pub q: DispatchTensor,
    /// Keys.
    pub k: DispatchTensor,
    /// Cosines, `[1 or b, s, w]`.
    pub cos: DispatchTensor,
    /// Sines.
    pub sin: DispatchTensor,
    /// What to compute.
    pub key: RopeKey,
}

/// Rotates queries and keys by the fused kernel of their device.
///
/// `q` is `[b, hq, s, d]` and `k` `[b, hk, s, d]`, with any strides; `cos` and `sin` are tables as
/// [`RopeTable`] says, of width `d`. The results have the shapes and dtype of `q` and `k` and are
/// contiguous.
///
/// # Errors
/// The reason why no kernel can run: no implementation for the device, a dtype it does not take,
/// or different dtypes.
///
/// # Panics
/// The shapes don't fit together, or `d` is odd.
pub fn fused(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: impl RopeTable,
    sin: impl RopeTable,
    key: RopeKey,
) -> Result<(Tensor<4>, Tensor<4>), Reason> {
    let (cos, sin) = (cos.rows(), sin.rows());
    check(&q, &k, &cos, &sin);
    let [q, k] = [q, k].map(Tensor::into_dispatch);
    let [cos, sin] = [cos, sin].map(Tensor::into_dispatch);
    let query = query([&q, &k, &cos, &sin]);
    refuse_unless_fused(KERNEL, SemanticsKey::Rope(key), query)?;
    let (q, k) = launch(q, k, cos, sin, key);
    Ok((Tensor::from_dispatch(q), Tensor::from_dispatch(k)))
}

/// Runs the kernel on queries, then on keys. Dispatch has found one for these tensors.
#[cfg(feature = "cpu")]
pub(crate) fn launch(
    q: DispatchTensor,
    k: DispatchTensor,
    cos: DispatchTensor,
    sin: DispatchTensor,
    key: RopeKey,
) -> (DispatchTensor, DispatchTensor) {
    use burn::backend::Dispatch;
    let q = <Dispatch as RopeBackend>::rope(q, cos.clone(), sin.clone(), key);
    let k = <Dispatch as RopeBackend>::rope(k, cos, sin, key);
    (q, k)
}

#[cfg(not(feature = "cpu"))]
pub(crate) fn launch(
    _: DispatchTensor,
    _: DispatchTensor,
    _: DispatchTensor,
    _: DispatchTensor,
    _: RopeKey,
) -> (DispatchTensor, DispatchTensor) {
    unreachable!("no implementation is compiled in, so dispatch found none")
}

/// Refuses shapes that have no rotary embedding.
#[track_caller]
pub(crate) fn check(q: &Tensor<4>, k: &Tensor<4>, cos: &Tensor<3>, sin: &Tensor<3>) {
    let ([b, _, s, d], k_shape) = (q.dims(), k.dims());
    assert!(
        d.is_multiple_of(2),
        "RoPE: the head width {d} is odd; its elements rotate in pairs"
    );
    let [k_b, _, k_s, k_d] = k_shape;
    assert!(
        [k_b, k_s, k_d] == [b, s, d],
        "RoPE: q is {:?} and k is {k_shape:?}; only their numbers of heads (axis 1) may differ",
        q.dims()
    );
    for (name, table) in [("cos", cos.dims()), ("sin", sin.dims())] {
        assert!(
            table == [b, s, d] || table == [1, s, d],
            "RoPE: the {name} table is {table:?}, but q, {:?}, needs [1, {s}, {d}] or \
             [{b}, {s}, {d}]",
            q.dims()
        );
    }
}
