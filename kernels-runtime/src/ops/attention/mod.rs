//! Attention: `y = softmax(s) · v` with the scores `s = scale · q·kᵀ` (Vaswani et al., arXiv:1706.03762), for each head.
//!
//! The scores may be capped, `c = cap · tanh(s / cap)`, and a bias may be added to them. Each query sees
//! consecutive keys: those that a causal mask, with or without a prefix, a window and the length of its sequence leave.
//! Heads of queries may share heads of keys and values (grouped-query attention, arXiv:2305.13245), and values may be
//! narrower or wider than keys. A sink is one more score in the sum of a head's softmax that has no value. The result of
//! a query that sees no key is zero.
//!
//! Kernels never hold the scores of all pairs: they compute blocks of them, with the running maximum and sum of each
//! query (Milakov & Gimelshein, arXiv:1805.02867; Dao et al., arXiv:2205.14135). They keep `lse = ln Σ e^s`, and compute
//! the blocks again for the gradients. With `p = e^(s − lse)` and `D = Σ dy · y` of each query:
//! * `dv = pᵀ · dy`;
//! * `ds = p · (dy·vᵀ − D)`, which is the bias's gradient too, summed over the axes that it is repeated on;
//! * with a cap, `ds` is then multiplied by the cap's slope, `1 − (c / cap)²`;
//! * `dq = scale · ds · k` and `dk = scale · dsᵀ · q`;
//! * for a sink `z`, `dz = −Σ e^(z − lse) · D` over the queries of its head.
//!
//! On processors with [AMX](super::linear::multiplies_in_tiles), heads in f32 of at least 64 elements take numbers as sums of
//! three in bf16, as linear layers do. Errors are those of f32. Heads with queries, keys, values or gradients below 2^-40 or
//! above 2^30 are computed in f32, unless larger numbers stand beside the small ones: these may lose up to 2^-95 for each term.

pub(crate) mod cases;
#[cfg(feature = "cpu")]
mod cpu;
#[cfg(feature = "gpu")]
mod cube;
pub(crate) mod key;
mod lengths;
pub(crate) mod live;
#[cfg(feature = "npu")]
pub mod npu;
mod operands;
mod reference;
pub(crate) mod site;
mod visible;

pub use lengths::Lengths;
use operands::check;
#[cfg(feature = "remote")]
pub(crate) use operands::remote;
pub use operands::{Attention, Each, Launch, Operands, Sizes};
pub use reference::reference;

use crate::ops::implementation;
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::AttentionKey;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

declare_kernel! {
    /// The kernel `npu_fused_attention`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_attention",
        op: "attention",
        version: 1,
        summary: "Attention without stored scores: causal, windowed, grouped-query, with its gradients",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
            #[cfg(feature = "gpu")]
            cube::IMPLEMENTATION,
            #[cfg(feature = "npu")]
            npu::IMPLEMENTATION,
            #[cfg(feature = "npu")]
            npu::COMPOSED,
        ],
    };
}

/// The tensors of one call, all of one dtype. Shapes are written for the layout `bnsd`; with `bsnd`, the second and
/// third axis of `q`, `k` and `v` are exchanged.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The queries, `[batch, heads, queries, width]`.
    pub q: Tensor<4>,
    /// The keys, `[batch, kv_heads, keys, width]`. `kv_heads` divides `heads`.
    pub k: Tensor<4>,
    /// The values, `[batch, kv_heads, keys, value_width]`.
    pub v: Tensor<4>,
    /// The bias of the scores, `[batch or 1, heads or 1, queries or 1, keys]` in both layouts. Present
    /// exactly if the key has one.
    pub bias: Option<Tensor<4>>,
    /// The score of each head's sink, `[heads]`. Present exactly if the key has sinks.
    pub sinks: Option<Tensor<1>>,
    /// The lengths of the sequences or documents. Present exactly if the key has lengths.
    pub lengths: Lengths,
}

/// The numbers of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The factor of the scores. `1 / √width` if it is not given.
    pub scale: Option<f64>,
    /// The number of first keys of each sequence or document that every query of it sees. Present exactly if the mask of
    /// the key has a prefix.
    pub prefix: Option<usize>,
    /// The size of the window, at least 1. Present exactly if the key has a window.
    pub window: Option<usize>,
    /// The limit of the scores, above 0. Present exactly if the key has a cap.
    pub cap: Option<f64>,
    /// The position of the first query, counted from the first key. If it is not given, the last query has the position
    /// of the last key: a query of a cache's newest token sees all of the cache.
    pub offset: Option<usize>,
}

impl Settings {
    /// Returns the factor of the scores.
    pub(crate) fn scale_of(self, width: usize) -> f64 {
        self.scale
            .unwrap_or_else(|| 1.0 / (width.max(1) as f64).sqrt())
    }

    /// Returns the position of the first query, counted from the first key.
    fn first(self, sizes: Sizes) -> i64 {
        // Sizes of tensors fit into `i64`.
        match self.offset {
            Some(offset) => i64::try_from(offset).unwrap_or(i64::MAX),
            None => sizes.keys as i64 - sizes.queries as i64,
        }
    }
}

/// Computes attention with the fused kernel of the tensors' device. The result has the dtype of `q` and the shape
/// `[batch, heads, queries, value_width]`, in the layout of the key.
///
/// # Errors
/// Returns the reason if no kernel can run: no implementation for the device, a dtype it does not take, or
/// different dtypes.
///
/// # Panics
/// Panics if the inputs or settings don't match the key, or if the shapes don't fit together.
#[track_caller]
pub fn fused(inputs: Inputs, settings: Settings, key: AttentionKey) -> Result<Tensor<4>, Reason> {
    let operands = Operands::of(inputs, settings, key);
    let found = implementation(KERNEL, key, operands.all())?;
    Ok(Tensor::from_dispatch(Attention::run(operands, found).y))
}
