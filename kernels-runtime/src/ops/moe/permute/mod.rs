//! Tokens into rows sorted by expert, so that every expert's rows are together.
//!
//! A token `t` and its choice `j` are a *slot*, `t · k + j`. Slots are sorted by expert, stably: an
//! expert's rows are in the order of their tokens. The row map is the inverse of that sort: slot
//! `(t, j)` is row `row_map[t][j]`, and that row is `tokens[t]`. It is `sortedIndices` of CANN's
//! `aclnnMoeTokenPermute`, and not the row-to-token map of Megatron.
//!
//! **Skipped slots.** A slot whose index is `num_experts`, one past the last, is for an expert that
//! is not here, as in expert parallelism. It is not counted and has no row: its entry of the row map
//! is `tokens · k`, which is outside the rows, as are the entries that `num_out_tokens` cut off.
//! [`unpermute`](super::unpermute) adds nothing for an entry that is outside. There are as many rows
//! as slots all the same, because a shape must not depend on values that may be on another device;
//! rows behind those of the experts are zero and belong to nobody. Any other index outside
//! `0..num_experts` is an error.
//!
//! **Gradients.** That of a token is the sum of its rows', added up in f32 (f64 for f64) and
//! rounded once.

mod autodiff;
#[cfg(feature = "cpu")]
mod cpu;
#[cfg(feature = "npu")]
pub mod npu;
pub(crate) mod operands;
mod reference;
#[cfg(feature = "remote")]
pub(crate) mod remote;
#[cfg(feature = "cpu")]
mod slots;

pub use autodiff::{
    PermuteBackend, PermuteKernel, SortTensors, SpreadTensors, SumTensors, WeighTensors,
};
pub use operands::{Sort, Spread, SpreadWeighed, Sum, Weigh, WeighBackward};
pub use reference::reference;

use super::{on_npu, refuse};
use crate::device::KernelOp;
use crate::dispatch::Query;
use crate::ops::operands::checked;
use crate::reason::Reason;
use burn::backend::DispatchTensor;
use burn::tensor::{Int, Tensor};

/// Tokens sorted by expert. Integers are of the type of the device's settings.
#[derive(Clone, Debug)]
pub struct Permuted {
    /// `[R, H]`: the rows of expert 0, then those of expert 1 and so on, then zeros. `R` is
    /// `tokens · k`, or less if `num_out_tokens` says so.
    pub rows: Tensor<2>,
    /// The row of each slot, `[tokens, k]`; outside `0..R` if it has none.
    pub row_map: Tensor<2, Int>,
    /// How many of the rows each expert has, `[num_experts]`.
    pub counts: Tensor<1, Int>,
}

/// Sorts tokens by expert: by the fused kernel where the device has one for the tokens' dtype, else
/// by the [`reference`](reference()). See [`fused`] for shapes.
///
/// # Panics
/// The shapes don't fit together, there is no expert, or an index is below 0 or above
/// `num_experts`.
pub fn moe_permute(
    tokens: Tensor<2>,
    indices: Tensor<2, Int>,
    num_experts: usize,
    num_out_tokens: Option<usize>,
) -> Permuted {
    fused(tokens.clone(), indices.clone(), num_experts, num_out_tokens)
        .unwrap_or_else(|_| reference(tokens, indices, num_experts, num_out_tokens))
}

/// Sorts tokens by expert by the fused kernel of their device: a counting sort, then one copy.
///
/// `tokens` is `[T, H]`, `indices` the experts of each, `[T, k]`; a token may choose an expert
/// twice. With `num_out_tokens` only that many rows are kept, the first ones.
///
/// # Errors
/// The reason why no kernel can run: none for the device, or a dtype it does not take.
///
/// # Panics
/// The shapes don't fit together, there is no expert, or an index is below 0 or above
/// `num_experts`.
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
    refuse(KernelOp::Permute, query, || {
        on_npu!(npu::takes_tokens(&tokens, &indices, num_experts, rows))
    })?;
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

/// Refuses operands that don't fit together; says how many rows there will be.
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
