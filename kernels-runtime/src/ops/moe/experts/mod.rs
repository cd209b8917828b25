//! The experts of a mixture (Shazeer et al., arXiv:1701.06538; with gated units as in Mixtral,
//! arXiv:2401.04088). A router, which is not part of this operation, has chosen for every token `t` the
//! experts `e = indices[t, j]` and their weights `p = routing[t, j]`:
//!
//! `y_t = Σ_j p · o`, `o = W_down a + b_down`, `a = activation(g) · (up_offset + u)`,
//! `g = W_gate x_t + b_gate`, `u = W_up x_t + b_up`.
//!
//! Index `E`, one past the last expert, means an expert on another device: the slot adds nothing
//! and gets no gradient. Any other index outside `0..E` is an error: a panic of the call on the CPU and
//! in the reference, which read the indices. A kernel on an NPU does not wait for them: it counts such indices on the
//! device, takes them for `E`, and the session's next read is the error. On a GPU, the result of such a token is NaN.
//! [`sharded`] computes the experts of several devices.
//!
//! With `q = W_downᵀ dy_t`, the gradients are `dp = a · q + b_down · dy_t`, `da = p q`,
//! `du = da · activation(g)`, `dg = da · (up_offset + u) · activation'(g)`,
//! `dx_t = Σ_j W_gateᵀ dg + W_upᵀ du`, `dW_gate = Σ dg xᵀ`, `dW_up = Σ du xᵀ`,
//! `dW_down = Σ p dy aᵀ`. The gradients of the biases are sums over the rows of an expert. An expert
//! without rows has zero gradients. A clamped operand has no gradient at or beyond its limit, as in PyTorch 2.15.
//!
//! | tensor | `layout = linear` | `layout = matmul` |
//! |---|---|---|
//! | gate and up in one (`chunked`, `interleaved`) | `[E, 2I, H]` | `[E, H, 2I]` |
//! | gate, up (`separate`) | `[E, I, H]` | `[E, H, I]` |
//! | down | `[E, H, I]` | `[E, I, H]` |
//! | biases | `[E, 2I]` or `[E, I]`, `[E, H]` | the same |
//!
//! Each is one tensor, or a list of `E` tensors without the first axis. A projection may have low-rank [adapters](Adapter),
//! whose products with the rows of an expert are added to its result.

mod adapter;
pub(crate) mod cases;
#[cfg(feature = "cpu")]
mod cpu;
#[cfg(feature = "gpu")]
mod cube;
mod each;
mod grouped;
pub(crate) mod key;
pub(crate) mod live;
#[cfg(feature = "npu")]
pub mod npu;
mod operands;
mod reference;
mod settings;
mod sharded;
pub(crate) mod site;
mod weights;

pub use adapter::Adapter;
pub use each::each;
pub(crate) use operands::check;
#[cfg(feature = "remote")]
pub(crate) use operands::remote;
pub use operands::{Each, Experts, Launch, Operands};
pub use reference::reference;
pub use settings::Settings;
pub use sharded::{Part, sharded};
pub use weights::{GateUp, Projection, Weights};

use crate::ops::implementation;
use crate::reason::Reason;
use crate::registry::{KernelSpec, declare_kernel};
use crate::semantics::MoeExpertsKey;
use burn::tensor::{Int, Tensor};

declare_kernel! {
    /// The kernel `npu_fused_moe`.
    pub static KERNEL = KernelSpec {
        id: "npu_fused_moe",
        op: "moe",
        version: 1,
        summary: "Mixture of experts: router, grouped products and gated unit, with their gradients",
        implementations: &[
            #[cfg(feature = "cpu")]
            cpu::IMPLEMENTATION,
            #[cfg(feature = "cpu")]
            super::router::IMPLEMENTATION,
            #[cfg(feature = "gpu")]
            cube::IMPLEMENTATION,
            #[cfg(feature = "gpu")]
            super::router::cube::IMPLEMENTATION,
            #[cfg(feature = "npu")]
            npu::IMPLEMENTATION,
            #[cfg(feature = "npu")]
            super::router::npu::IMPLEMENTATION,
        ],
    };
}

/// Computes the experts of a mixture with the fused kernel of the tensors' device.
///
/// `x` is `[T, H]`, `indices` and `routing` are `[T, k]`. The result has the shape and dtype of `x`. `weights` have
/// the dtype of `x`; `routing` has the same dtype or f32, as in Mixtral. `limit` is the limit of the clamp and must
/// be present exactly if the key has a clamp. Experts with [adapters](Adapter) are computed by kernels for rows that are
/// grouped by expert. Quantised ones are computed by the [reference](reference()) alone, which multiplies rows with
/// their bytes.
///
/// # Errors
/// Returns the reason if no kernel can run: no implementation for the device or the activation, a dtype
/// it does not take, different dtypes, or experts in quantised form.
///
/// # Panics
/// Panics if the shapes don't fit together, or if the operands don't match the key. On the CPU, also panics if an
/// index is below 0 or above the number of experts. On an NPU such an index is an error of the next read, and on a GPU the
/// result of its token is NaN.
pub fn fused(
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    weights: Weights,
    limit: Option<f64>,
    key: MoeExpertsKey,
) -> Result<Tensor<2>, Reason> {
    check(&x, &indices, &routing, &weights, limit, key);
    if weights.are_quantised() {
        return Err(Reason::Layers);
    }
    if weights.are_adapted() {
        return Ok(grouped::experts(x, indices, routing, &weights, limit, key));
    }
    let settings = Settings { key, limit };
    let operands = Operands::of(x, indices, routing, weights, settings);
    let found = implementation(KERNEL, key, operands.all())?;
    Ok(Tensor::from_dispatch(Experts::run(operands, found).y))
}
