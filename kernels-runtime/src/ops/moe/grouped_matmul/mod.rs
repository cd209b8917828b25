//! The product of rows grouped by expert with each expert's weights: `[R, K]` to `[R, N]`. The first
//! `counts[0]` rows belong to expert 0, the next `counts[1]` rows to expert 1, and so on. The results of rows
//! beyond the sum of the counts are zeros.
//!
//! With `y_e = x_e W_e`, the gradients are `dx_e = dy_e W_eᵀ` and `dW_e = x_eᵀ dy_e`, which is zero for an
//! expert without rows. The gradient of rows beyond the sum is zero.
//!
//! Weights are `[E, K, N]` with [`ExpertLayout::Matmul`] and `[E, N, K]` with
//! [`ExpertLayout::Linear`], in one tensor or in a list of `E` tensors without the first axis.

#[cfg(feature = "cpu")]
mod cpu;
#[cfg(feature = "gpu")]
pub(in crate::ops::moe) mod cube;
#[cfg(feature = "npu")]
pub mod npu;
mod operands;
mod reference;

#[cfg(feature = "remote")]
pub(crate) use operands::remote;
pub use operands::{Each, GroupedMatmul, Operands};
pub use reference::reference;

use super::{Stack, on_gpu, on_npu, refuse};
use crate::device::KernelOp;
use crate::dispatch::Query;
use crate::ops::operands::{Facts, checked};
use crate::reason::Reason;
use crate::semantics::ExpertLayout;
use burn::tensor::{Int, Tensor};
use std::ops::Range;

/// Computes grouped products with the kernel of the tensors' device.
///
/// `x` is `[R, K]`. `counts` has one integer for each expert; the kernel reads them on the device, so the call
/// does not wait for the device. The result is `[R, N]`, of the dtype of `x` and the weights.
///
/// # Errors
/// Returns the reason if no kernel can run: no implementation for the device, a dtype it does not take,
/// or different dtypes.
///
/// # Panics
/// Panics if the shapes don't fit together. On the CPU, also panics if counts are negative or their sum exceeds
/// the number of rows. On a GPU, all results are NaN then.
pub fn fused(
    x: Tensor<2>,
    counts: Tensor<1, Int>,
    weights: impl Into<Stack<3, 2>>,
    layout: ExpertLayout,
) -> Result<Tensor<2>, Reason> {
    let weights = weights.into();
    let (x, counts) = (x.into_dispatch(), counts.into_dispatch());
    let operands = checked(Operands::new(x, weights.into_dispatch(), counts, layout));
    for weight in operands.weights() {
        let query = Query::of_one_dtype(&[operands.x(), weight]);
        refuse(
            KernelOp::GroupedMatmul,
            query,
            || on_npu!(npu::takes(&operands)),
            || on_gpu!(cube::takes(&operands)),
        )?;
    }
    Ok(Tensor::from_dispatch(GroupedMatmul::run(operands).y))
}

/// Panics if [`Operands::new`] would return an error. Returns the number of experts and of features.
#[track_caller]
fn check(
    x: &Tensor<2>,
    counts: &Tensor<1, Int>,
    weights: &Stack<3, 2>,
    layout: ExpertLayout,
) -> (usize, usize) {
    let (x, counts) = (Facts::from(x), Facts::from(counts));
    let operands = checked(Operands::new(x, weights.facts(), counts, layout));
    (operands.experts(), operands.result()[1])
}

/// Returns the range of rows of each expert.
///
/// # Panics
/// Panics if a count is negative, or if the counts add up to more than `rows`.
#[track_caller]
fn groups(counts: &[i64], rows: usize) -> Vec<Range<usize>> {
    let mut start = 0_usize;
    counts
        .iter()
        .map(|count| {
            let count = usize::try_from(*count).ok();
            let end = count.and_then(|count| start.checked_add(count));
            let Some(end) = end.filter(|end| *end <= rows) else {
                panic!("grouped matmul: the counts {counts:?} are not those of {rows} rows");
            };
            let group = start..end;
            start = end;
            group
        })
        .collect()
}
