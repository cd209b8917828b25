//! Rows grouped by expert times each expert's weights: rows `[R, K]`, of which the first
//! `counts[0]` are expert 0's, the next `counts[1]` expert 1's, and so on, to `[R, N]`. Rows beyond
//! the sum of the counts give zeros.
//!
//! With `y_e = x_e W_e` the gradients are `dx_e = dy_e W_eᵀ` and `dW_e = x_eᵀ dy_e`, zero for an
//! expert without rows; rows beyond the sum have none.
//!
//! Weights are `[E, K, N]` with [`ExpertLayout::Matmul`] and `[E, N, K]` with
//! [`ExpertLayout::Linear`], in one tensor or a list of `E` without the first axis.

#[cfg(feature = "cpu")]
mod autodiff;
#[cfg(feature = "cpu")]
mod cpu;
#[cfg(feature = "npu")]
pub mod npu;
mod reference;

#[cfg(feature = "cpu")]
pub use autodiff::{GroupedMatmulBackend, GroupedMatmulKernel};
pub use reference::reference;

use super::{Stack, refuse};
use crate::dispatch::{KernelOp, Query, Reason};
use crate::semantics::ExpertLayout;
use burn::backend::DispatchTensor;
use burn::tensor::{Int, Tensor};
use std::ops::Range;

/// Grouped products by the kernel of the tensors' device.
///
/// `x` is `[R, K]`, `counts` has an integer for each expert; they are read where they are, so a
/// device is not waited for. The result is `[R, N]`, of the dtype of `x` and the weights.
///
/// # Errors
/// The reason why no kernel can run: no implementation for the device, a dtype it does not take,
/// or different dtypes.
///
/// # Panics
/// Shapes that don't go together and, on the CPU, counts that are negative or more than the rows.
pub fn fused(
    x: Tensor<2>,
    counts: Tensor<1, Int>,
    weights: impl Into<Stack<3, 2>>,
    layout: ExpertLayout,
) -> Result<Tensor<2>, Reason> {
    let weights = weights.into();
    check(&x, &counts, &weights, layout);
    let (x, counts) = (x.into_dispatch(), counts.into_dispatch());
    let weights = weights.into_dispatch();
    for weight in &weights {
        let query = Query::of_one_dtype(&[&x, weight]);
        refuse(KernelOp::GroupedMatmul, query, || {
            on_npu(&x, &counts, &weights, layout)
        })?;
    }
    Ok(Tensor::from_dispatch(launch(x, counts, weights, layout)))
}

/// Why CANN's operators do not compute it.
#[cfg(feature = "npu")]
fn on_npu(
    x: &DispatchTensor,
    counts: &DispatchTensor,
    weights: &[DispatchTensor],
    layout: ExpertLayout,
) -> Result<(), Reason> {
    crate::npu::limits::grouped_matmul(x, counts, weights, layout)
}

#[cfg(not(feature = "npu"))]
fn on_npu(
    _: &DispatchTensor,
    _: &DispatchTensor,
    _: &[DispatchTensor],
    _: ExpertLayout,
) -> Result<(), Reason> {
    Err(Reason::NoImplementation)
}

#[cfg(feature = "cpu")]
fn launch(
    x: DispatchTensor,
    counts: DispatchTensor,
    weights: Vec<DispatchTensor>,
    layout: ExpertLayout,
) -> DispatchTensor {
    let weights = super::Many(vec![weights]);
    <burn::backend::Dispatch as GroupedMatmulBackend>::grouped_matmul(x, counts, weights, layout)
}

#[cfg(not(feature = "cpu"))]
fn launch(
    _: DispatchTensor,
    _: DispatchTensor,
    _: Vec<DispatchTensor>,
    _: ExpertLayout,
) -> DispatchTensor {
    unreachable!("no implementation is compiled in, so no device has one")
}

/// Refuses shapes that don't go together. Returns the number of experts and of features.
#[track_caller]
fn check(
    x: &Tensor<2>,
    counts: &Tensor<1, Int>,
    weights: &Stack<3, 2>,
    layout: ExpertLayout,
) -> (usize, usize) {
    let (experts, sizes) = weights.sizes("grouped matmul");
    let [inputs, features] = match layout {
        ExpertLayout::Linear => [sizes[1], sizes[0]],
        ExpertLayout::Matmul => sizes,
    };
    assert!(experts > 0, "grouped matmul: there are no experts");
    assert!(
        counts.dims() == [experts],
        "grouped matmul: there are {:?} counts, but {experts} experts",
        counts.dims(),
    );
    assert!(
        x.dims()[1] == inputs,
        "grouped matmul: rows have {} elements, but the weights, {sizes:?} for each of {experts} \
         experts, take {inputs}",
        x.dims()[1],
    );
    (experts, features)
}

/// The rows of each expert.
///
/// # Panics
/// A count is negative, or there are more than `rows`.
#[track_caller]
fn groups(counts: &[i64], rows: usize) -> Vec<Range<usize>> {
    let mut start = 0;
    counts
        .iter()
        .map(|count| {
            let end = usize::try_from(*count).ok().map(|count| start + count);
            let Some(end) = end.filter(|end| *end <= rows) else {
                panic!("grouped matmul: the counts {counts:?} are not those of {rows} rows");
            };
            let group = start..end;
            start = end;
            group
        })
        .collect()
}
