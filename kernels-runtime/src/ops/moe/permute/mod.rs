//! Moving tokens to rows sorted by expert, so that every expert's rows are contiguous.
//!
//! A *slot* is a choice `j` of a token `t`, with the number `t · k + j`. Slots are sorted by expert, stably: an
//! expert's rows are in the order of their tokens. The row map is the inverse of that sort: slot
//! `(t, j)` has row `row_map[t][j]`, and that row holds `tokens[t]`. The map is `sortedIndices` of CANN's
//! `aclnnMoeTokenPermute`, not the row-to-token map of Megatron.
//!
//! **Skipped slots.** A slot whose index is `num_experts`, one past the last, belongs to an expert that
//! is elsewhere, as in expert parallelism. It is not counted and has no row. Its entry of the row map
//! is `tokens · k`, which is outside the rows, as are the entries that `num_out_tokens` cuts off.
//! [`unpermute`](super::unpermute) adds nothing for an entry that is outside. There are still as many rows
//! as slots, because a shape must not depend on values that may be on another device.
//! Rows after those of the experts are zero and belong to no slot. Any other index outside
//! `0..num_experts` is an error. On a GPU, where nothing waits for the indices, it shows in the numbers of its token.
//!
//! **Gradients.** The gradient of a token is the sum of the gradients of its rows, added in f32 (f64 for f64
//! tensors) and rounded once.

mod autodiff;
#[cfg(feature = "cpu")]
mod cpu;
#[cfg(feature = "gpu")]
pub(in crate::ops::moe) mod cube;
#[cfg(feature = "npu")]
pub mod npu;
pub(crate) mod operands;
mod reference;
#[cfg(feature = "remote")]
pub(crate) mod remote;

pub use autodiff::{
    PermuteBackend, PermuteKernel, SortTensors, SpreadTensors, SumTensors, WeighTensors,
};
pub use operands::{Sort, Spread, SpreadWeighed, Sum, Weigh, WeighBackward};
pub use reference::reference;

use super::experts::KERNEL;
use super::steps::PERMUTE;
use super::{on_gpu, on_npu, refuse};
use crate::device::KernelOp;
use crate::dispatch::Query;
use crate::ops::operands::checked;
use crate::reason::Reason;
use burn::backend::DispatchTensor;
use burn::tensor::{Int, Tensor};

/// Tokens sorted by expert. Integers have the type of the device's settings.
#[derive(Clone, Debug)]
pub struct Permuted {
    /// `[R, H]`: the rows of expert 0, then those of expert 1 and so on, then zeros. `R` is
    /// `tokens · k`, or `num_out_tokens` if that is less.
    pub rows: Tensor<2>,
    /// The row of each slot, `[tokens, k]`; outside `0..R` if it has none.
    pub row_map: Tensor<2, Int>,
    /// The number of rows of each expert, `[num_experts]`.
    pub counts: Tensor<1, Int>,
}

/// Sorts tokens by expert: with the fused kernel if the device has one for the tokens' dtype and the policy allows it,
/// otherwise with the [`reference`](reference()). The report counts the call. See [`fused`] for shapes.
///
/// # Panics
/// Panics if the policy requires the kernel and it can't run. Panics if the shapes don't fit together, if there is no
/// expert, or, except on an NPU and a GPU, if an index is below 0 or above `num_experts`.
pub fn moe_permute(
    tokens: Tensor<2>,
    indices: Tensor<2, Int>,
    num_experts: usize,
    num_out_tokens: Option<usize>,
) -> Permuted {
    let (x, chosen) = (tokens.clone(), indices.clone());
    PERMUTE.run(
        KERNEL,
        &[&tokens.clone().into_dispatch()],
        || fused(x, chosen, num_experts, num_out_tokens),
        || reference(tokens, indices, num_experts, num_out_tokens),
    )
}

/// Sorts tokens by expert with the fused kernel of their device: a counting sort, then one copy.
///
/// `tokens` is `[T, H]`, and `indices` has the experts of each token, `[T, k]`. A token may choose an expert
/// twice. With `num_out_tokens`, only that many rows are kept, the first ones.
///
/// # Errors
/// Returns the reason if no kernel can run: none for the device, or a dtype it does not take.
///
/// # Panics
/// Panics if the shapes don't fit together, if there is no expert, or, except on an NPU and a GPU, if an index is below 0
/// or above `num_experts`. On a GPU, the sums that [`unpermute`](super::unpermute) computes for its token are NaN.
pub fn fused(
    tokens: Tensor<2>,
    indices: Tensor<2, Int>,
    num_experts: usize,
    num_out_tokens: Option<usize>,
) -> Result<Permuted, Reason> {
    let rows = check(&tokens, &indices, num_experts, num_out_tokens);
    let ints = tokens.device().settings().int_dtype;
    let (tokens, indices) = (tokens.into_dispatch(), indices.into_dispatch());
    let query = Query::of_one_dtype(&[&tokens]);
    refuse(
        KernelOp::Permute,
        query,
        || on_npu!(npu::takes_tokens(&tokens, &indices, num_experts, rows)),
        || {
            on_gpu!(cube::takes_tokens(
                &tokens,
                &indices,
                num_experts,
                (rows, ints)
            ))
        },
    )?;
    let slots = checked(Sort::new(indices, num_experts, rows, ints));
    let (row_map, counts) = sort(slots);
    let operands = checked(Spread::new(tokens, row_map.clone(), rows));
    Ok(Permuted {
        rows: Tensor::from_dispatch(spread(operands)),
        row_map: Tensor::from_dispatch(row_map),
        counts: Tensor::from_dispatch(counts),
    })
}

fn sort(slots: Sort<DispatchTensor, DispatchTensor>) -> (DispatchTensor, DispatchTensor) {
    <burn::backend::Dispatch as PermuteBackend>::sort_slots(slots)
}

fn spread(operands: Spread<DispatchTensor, DispatchTensor>) -> DispatchTensor {
    <burn::backend::Dispatch as PermuteBackend>::spread(operands)
}

/// Checks that the operands fit together, and returns the number of rows.
#[track_caller]
fn check(
    tokens: &Tensor<2>,
    indices: &Tensor<2, Int>,
    num_experts: usize,
    num_out_tokens: Option<usize>,
) -> usize {
    let ([count, width], [indexed, k]) = (tokens.dims(), indices.dims());
    assert!(
        count == indexed,
        "moe_permute: tokens are [{count}, {width}], but indices are [{indexed}, {k}]; they need \
         one row a token each"
    );
    assert!(num_experts > 0, "moe_permute: there is no expert");
    checked(super::sort::few_experts("moe_permute", num_experts));
    num_out_tokens.map_or(count * k, |limit| limit.min(count * k))
}
