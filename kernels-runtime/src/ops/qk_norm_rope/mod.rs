//! The norm and the rotation of queries and keys between their projections and attention.
//!
//! A projection's result, `[batch, seq, heads, width]`, is normalised by RMSNorm, each head by itself or all heads of a
//! token together, or not at all. It is then [rotated](crate::ops::rope) and, if the [key](QkNormRopeKey) states so,
//! written as `[batch, heads, seq, width]`. Every step rounds as the separate operation does.
//!
//! With `n` the normalised tensor, the gradient of `n` is the rotation back of the result's gradient, and the gradients
//! of `x` and of the weight are [RMSNorm's](crate::ops::rms_norm) for it. The backward pass recomputes `rstd` from `x`,
//! which it reads anyway.

mod autodiff;
pub(crate) mod cases;
mod composed;
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
#[cfg(feature = "remote")]
pub(crate) mod remote;
pub(crate) mod site;

pub use autodiff::{Gradients, QkNormRopeBackend, QkNormRopeKernel, Tensors};
use operands::check;
pub use operands::{Backward, Operands, Pair};
pub use reference::reference;

use crate::ops::define::launched;
use crate::ops::implementation;
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::QkNormRopeKey;
use burn::backend::{Dispatch, DispatchTensor};
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

declare_kernel! {
    /// The kernel `npu_fused_qk_norm_rope`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_qk_norm_rope",
        op: "qk_norm_rope",
        version: 1,
        summary: "RMSNorm and rotary position embedding of projected queries and keys, with its gradients",
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

/// The tensors of one call. The tables have the dtype of the others, or the one these are computed in.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The queries, `[b, s, heads, d]`.
    pub q: Tensor<4>,
    /// The keys, `[b, s, kv_heads, d]`.
    pub k: Tensor<4>,
    /// The weight of the queries' norm, `[d]` for a norm of heads and `[heads · d]` for one of rows. Present exactly if
    /// the key has a norm.
    pub q_weight: Option<Tensor<1>>,
    /// The weight of the keys' norm, `[d]` or `[kv_heads · d]`. Present exactly if the key has a norm.
    pub k_weight: Option<Tensor<1>>,
    /// The cosines, `[1 or b, s, w]`.
    pub cos: Tensor<3>,
    /// The sines, `[1 or b, s, w]`.
    pub sin: Tensor<3>,
}

/// The numbers of one call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The number that is added to the mean square of a norm. Present exactly if the key has a norm.
    pub eps: Option<f64>,
}

/// Normalises and rotates queries and keys with the fused kernel of their device.
///
/// The results have the dtype of `q` and `k` and are contiguous: `[b, heads, s, d]` or `[b, s, heads, d]`, as `key`
/// states.
///
/// # Errors
/// Returns the reason if no kernel can run: no implementation for the device, a dtype it does not take,
/// or different dtypes.
///
/// # Panics
/// Panics if the inputs or settings don't match the key, or if the shapes don't fit together.
#[track_caller]
pub fn fused(
    inputs: Inputs,
    settings: Settings,
    key: QkNormRopeKey,
) -> Result<(Tensor<4>, Tensor<4>), Reason> {
    let pair = Pair::of(inputs, settings, key);
    let found = implementation(KERNEL, key, pair.all())?;
    let (q, k) = pair.run(found);
    Ok((Tensor::from_dispatch(q), Tensor::from_dispatch(k)))
}

launched!(Pair<DispatchTensor> => (DispatchTensor, DispatchTensor), |pair| {
    pair.split().map(<Dispatch as QkNormRopeBackend>::qk_norm_rope).into()
});
