//! The norm and the rotation of queries and keys between their projections and attention.
//!
//! A projection's result, `[batch, seq, heads, width]`, is normalised by RMSNorm, each head by itself or all heads of a
//! token together, or not at all. It is then [rotated](crate::ops::rope) and, if the [key](QkNormRopeKey) states so,
//! written as `[batch, heads, seq, width]`. Every step rounds as the separate operation does.
//!
//! With `n` the normalised tensor, the gradient of `n` is the rotation back of the result's gradient, and the gradients
//! of `x` and of the weight are [RMSNorm's](crate::ops::rms_norm) for it. The backward pass recomputes `rstd` from `x`,
//! which it reads anyway.

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
pub(crate) mod site;

use operands::check;
#[cfg(feature = "remote")]
pub(crate) use operands::remote;
pub use operands::{Each, Launch, Operands, Pair, QkNormRope};
pub use reference::{reference, reference_sections};

use crate::ops::implementation;
use crate::ops::rope::{check_sections, merge};
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::QkNormRopeKey;
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
    Ok(pair.run(found))
}

/// Works like [`fused`], with the tables of three positions in place of those of the inputs: `[3, 1 or b, s, w]`, for time,
/// height and width. `sections` gives the number of pairs that take each position. The key states which pairs these are.
///
/// # Errors
/// Returns an error as [`fused`] does.
///
/// # Panics
/// Panics as [`fused`] does, or if the sections don't add up to the pairs of the tables.
#[track_caller]
pub fn fused_sections(
    projected: Projected,
    [cos, sin]: [Tensor<4>; 2],
    sections: [usize; 3],
    settings: Settings,
    key: QkNormRopeKey,
) -> Result<(Tensor<4>, Tensor<4>), Reason> {
    fused(
        projected.with(merged([cos, sin], sections, key)),
        settings,
        key,
    )
}

/// The tensors of one call without the tables.
#[derive(Clone, Debug)]
pub struct Projected {
    /// See [`Inputs::q`].
    pub q: Tensor<4>,
    /// See [`Inputs::k`].
    pub k: Tensor<4>,
    /// See [`Inputs::q_weight`].
    pub q_weight: Option<Tensor<1>>,
    /// See [`Inputs::k_weight`].
    pub k_weight: Option<Tensor<1>>,
}

impl Projected {
    fn with(self, [cos, sin]: [Tensor<3>; 2]) -> Inputs {
        let Self {
            q,
            k,
            q_weight,
            k_weight,
        } = self;
        Inputs {
            q,
            k,
            q_weight,
            k_weight,
            cos,
            sin,
        }
    }
}

/// Merges the tables of three positions.
///
/// # Panics
/// Panics unless tables and sections fit together and match the key.
#[track_caller]
fn merged([cos, sin]: [Tensor<4>; 2], sections: [usize; 3], key: QkNormRopeKey) -> [Tensor<3>; 2] {
    let key = key.rope();
    check_sections(&cos, &sin, sections, key);
    [cos, sin].map(|table| merge(table, sections, key))
}
