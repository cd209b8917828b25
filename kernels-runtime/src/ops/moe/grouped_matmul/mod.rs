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
use burn::tensor::{Int, Tensor, TensorData};
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
    run(x, counts, weights.into(), layout, None)
}

/// Computes [grouped products](fused()) whose counts the host knows: `rows` has the number of rows of each expert, and together
/// they are all rows of `x`.
///
/// On an NPU, a list of weights is then multiplied as a list of pairs of rows and weight, which needs no counts on the device:
/// `aclnnGroupedMatmulV5` of `groupType` −1, for every 128 experts that have rows. (With counts on the device, more than 128
/// weights take up to twice as many products.) Elsewhere, and for stacked weights, this is the same as `fused`.
///
/// # Errors
/// Returns the reason as [`fused`](fused()) does.
///
/// # Panics
/// Panics if the shapes don't fit together, or if the numbers don't add up to the rows of `x`.
pub fn fused_of_rows(
    x: Tensor<2>,
    rows: &[usize],
    weights: impl Into<Stack<3, 2>>,
    layout: ExpertLayout,
) -> Result<Tensor<2>, Reason> {
    // A number of rows that does not fit is not one of `x` either.
    let counts = rows
        .iter()
        .map(|rows| i64::try_from(*rows).unwrap_or(i64::MAX));
    let counts = TensorData::new(counts.collect(), [rows.len()]);
    let counts = Tensor::from_data(counts, &x.device().inner());
    run(x, counts, weights.into(), layout, Some(rows.to_vec()))
}

/// Multiplies each tensor of rows, `[R_e, K]`, by the weight of its expert: products of lists, without counts. Returns one
/// result for each, `[R_e, N]`.
///
/// It joins the rows and computes [`fused_of_rows`], so rows that are one tensor already should go there.
///
/// # Errors
/// Returns the reason as [`fused`](fused()) does.
///
/// # Panics
/// Panics if there are none, if there are not as many weights as tensors of rows, or if the shapes don't fit together.
pub fn fused_each(
    xs: Vec<Tensor<2>>,
    weights: Vec<Tensor<2>>,
    layout: ExpertLayout,
) -> Result<Vec<Tensor<2>>, Reason> {
    assert!(
        !xs.is_empty() && xs.len() == weights.len(),
        "grouped matmul: there are {} tensors of rows and {} weights, but each weight must have one",
        xs.len(),
        weights.len()
    );
    let rows: Vec<usize> = xs.iter().map(|x| x.dims()[0]).collect();
    let y = fused_of_rows(Tensor::cat(xs, 0), &rows, Stack::List(weights), layout)?;
    let mut start = 0;
    let parts = rows.into_iter().map(|rows| {
        start += rows;
        y.clone().slice_dim(0, start - rows..start)
    });
    Ok(parts.collect())
}

fn run(
    x: Tensor<2>,
    counts: Tensor<1, Int>,
    weights: Stack<3, 2>,
    layout: ExpertLayout,
    known: Option<Vec<usize>>,
) -> Result<Tensor<2>, Reason> {
    let (x, counts) = (x.into_dispatch(), counts.into_dispatch());
    let operands = Operands::new(x, weights.into_dispatch(), counts, layout, known);
    let operands = checked(operands);
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
    let operands = checked(Operands::new(x, weights.facts(), counts, layout, None));
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
