//! Rotary position embedding (Su et al., arXiv:2104.09864).
//!
//! Pair `i` of a head, `(x1, x2)`, is rotated by the angle of its token and its place in the head:
//! `y1 = x1 · cos − x2 · sin`, `y2 = x2 · cos + x1 · sin`. The [key](RopeKey) states which elements
//! form a pair, where the results go and which elements of the tables belong to them. A table may
//! hold every angle twice; `cos1` and `sin1` then belong to `y1`, and `cos2` and `sin2` to `y2`.
//!
//! The gradients are `dx1 = dy1 · cos1 + dy2 · sin2`, `dx2 = dy2 · cos2 − dy1 · sin1` and, summed
//! over the heads (and over the batch if it shares the table), `d_cos1 = dy1 · x1`,
//! `d_cos2 = dy2 · x2`, `d_sin1 = −dy1 · x2`, `d_sin2 = dy2 · x1`.

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
mod sections;
pub(crate) mod site;
mod table;
mod table_gradient;

use operands::check;
#[cfg(feature = "remote")]
pub(crate) use operands::remote;
#[cfg(feature = "gpu")]
pub(in crate::ops) use operands::rotary_width;
pub use operands::{Each, Launch, Operands, Pair, Rope};
pub(in crate::ops) use operands::{fits, table_dtype};
pub use reference::{reference, reference_sections};
pub(crate) use sections::{check as check_sections, merge};
pub use table::RopeTable;
pub(in crate::ops) use table_gradient::{room_of_tables, table_gradients};

use crate::ops::implementation;
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::RopeKey;
use burn::tensor::Tensor;

declare_kernel! {
    /// The kernel `npu_fused_rope`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_rope",
        op: "rope",
        version: 1,
        summary: "Rotary position embedding of queries and keys, with its gradients",
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

/// Rotates queries and keys with the fused kernel of their device.
///
/// `q` and `k` are `[b, heads, s, d]` or `[b, s, heads, d]`, as `key` states. They may have any strides
/// and different numbers of heads. `cos` and `sin` are tables as [`RopeTable`] describes. The tables have
/// the dtype of `q` and `k`, or the one these are computed in (f32 for half types), as in OLMo 2 and
/// Llama 4. The results have the shapes and dtype of `q` and `k` and are contiguous.
///
/// # Errors
/// Returns the reason if no kernel can run: no implementation for the device, a dtype it does not take,
/// or different dtypes.
///
/// # Panics
/// Panics if the shapes don't fit together or don't match the key, or if the rotated width is odd.
#[track_caller]
pub fn fused(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: impl RopeTable,
    sin: impl RopeTable,
    key: RopeKey,
) -> Result<(Tensor<4>, Tensor<4>), Reason> {
    let (cos, sin) = (cos.rows(), sin.rows());
    let pair = Pair::of(q, k, cos, sin, key);
    let found = implementation(KERNEL, key, pair.all())?;
    Ok(pair.run(found))
}

/// Works like [`fused`], with tables of three positions, `[3, 1 or b, s, w]`: time, height and width.
///
/// `sections` gives the number of pairs that take each position. The key states which pairs these are.
///
/// # Errors
/// Returns an error as [`fused`] does.
///
/// # Panics
/// Panics as [`fused`] does, or if the sections don't add up to the pairs of the table.
#[track_caller]
pub fn fused_sections(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<4>,
    sin: Tensor<4>,
    sections: [usize; 3],
    key: RopeKey,
) -> Result<(Tensor<4>, Tensor<4>), Reason> {
    check_sections(&cos, &sin, sections, key);
    fused(
        q,
        k,
        merge(cos, sections, key),
        merge(sin, sections, key),
        key,
    )
}
