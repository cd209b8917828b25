//! Moving rows sorted by expert back to tokens: `y[t] = Σⱼ probs[t][j] · rows[row_map[t][j]]`, with the
//! row map of [`permute`](super::permute). An entry that is not the number of a row adds nothing,
//! whatever the contents of the rows after those of the experts. On an NPU, the map must be one that
//! [`permute`](super::permute) made, because CANN's operators take it by its order. With another one, the session's next
//! read is an error.
//!
//! The sum is computed in f32 (f64 for f64 tensors), in the order of the slots, and rounded once.
//!
//! **Gradients.** `d_rows[row_map[t][j]] = probs[t][j] · dy[t]`, zero for rows that are not in the map, and
//! `d_probs[t][j] = Σₕ rows[row_map[t][j]] · dy[t]`, zero for slots without a row.

use super::experts::KERNEL;
use super::permute::PermuteBackend;
use super::steps::UNPERMUTE;
use super::{on_gpu, on_npu, refuse};
use crate::device::KernelOp;
use crate::dispatch::Query;
use crate::ops::{compute_dtype, same_dtype_as};
use crate::reason::Reason;
use burn::backend::DispatchTensor;
use burn::tensor::{Int, Tensor};

/// Gathers rows back into tokens: with the fused kernel if the device has one for the dtypes and the policy allows it,
/// otherwise with the [`reference`](reference()). The report counts the call. See [`fused`] for shapes.
///
/// # Panics
/// Panics if the policy requires the kernel and it can't run. Panics if the shapes don't fit together.
pub fn moe_unpermute(
    rows: Tensor<2>,
    row_map: Tensor<2, Int>,
    probs: Option<Tensor<2>>,
) -> Tensor<2> {
    let (x, map, weights) = (rows.clone(), row_map.clone(), probs.clone());
    UNPERMUTE.run(
        KERNEL,
        &[&rows.clone().into_dispatch()],
        || fused(x, map, weights),
        || reference(rows, row_map, probs),
    )
}

/// Gathers rows back into tokens with the fused kernel of their device.
///
/// `rows` is `[R, H]`, `row_map` and `probs` are `[T, k]`. Without probabilities, rows are added
/// unchanged. Probabilities have the dtype of the rows or the wider one of a router's weights, f32
/// for half types. The result is `[T, H]` in the dtype of the rows.
///
/// # Errors
/// Returns the reason if no kernel can run: none for the device, or dtypes it does not take.
///
/// # Panics
/// Panics if the shapes don't fit together. On the CPU, the gradient panics if the map has a row twice, which
/// no map from [`moe_permute`](super::moe_permute) has.
pub fn fused(
    rows: Tensor<2>,
    row_map: Tensor<2, Int>,
    probs: Option<Tensor<2>>,
) -> Result<Tensor<2>, Reason> {
    check(&rows, &row_map, probs.as_ref());
    if let Some(probs) = &probs {
        let dtype = rows.dtype();
        if ![dtype, compute_dtype(dtype)].contains(&probs.dtype()) {
            return Err(Reason::MixedDtypes);
        }
    }
    let (rows, row_map) = (rows.into_dispatch(), row_map.into_dispatch());
    let probs = probs.map(Tensor::into_dispatch);
    refuse(
        KernelOp::Permute,
        Query::of_one_dtype(&[&rows]),
        || {
            on_npu!(super::permute::npu::takes_rows(
                &rows,
                &row_map,
                probs.as_ref()
            ))
        },
        || on_gpu!(super::permute::cube::takes_rows(&rows, &row_map)),
    )?;
    Ok(Tensor::from_dispatch(launch(rows, row_map, probs)))
}

fn launch(
    rows: DispatchTensor,
    row_map: DispatchTensor,
    probs: Option<DispatchTensor>,
) -> DispatchTensor {
    use super::permute::{Sum, Weigh};
    use crate::ops::operands::checked;
    use burn::backend::Dispatch;
    match probs {
        None => <Dispatch as PermuteBackend>::sum_rows(checked(Sum::new(rows, row_map))),
        Some(probs) => {
            let operands = checked(Weigh::new(rows, row_map, probs));
            <Dispatch as PermuteBackend>::weigh_rows(operands)
        }
    }
}

/// Gathers rows with plain tensor operations, on any backend: the definition that kernels are
/// verified against. See [`fused`] for shapes; probabilities may have any float dtype.
///
/// # Panics
/// Panics if the shapes don't fit together.
pub fn reference(rows: Tensor<2>, row_map: Tensor<2, Int>, probs: Option<Tensor<2>>) -> Tensor<2> {
    check(&rows, &row_map, probs.as_ref());
    let ([count, width], [tokens, k]) = (rows.dims(), row_map.dims());
    let (dtype, device) = (rows.dtype(), rows.device());
    let compute = compute_dtype(dtype);
    if tokens * k * width == 0 {
        return Tensor::zeros([tokens, width], (&device, dtype));
    }
    let entries = row_map.reshape([tokens * k]);
    let outside = entries
        .clone()
        .lower_elem(0)
        .bool_or(entries.clone().greater_equal_elem(count as i64));
    // An entry outside reads an additional row of zeros.
    let entries = entries.mask_fill(outside, count as i64);
    let zeros = Tensor::zeros([1, width], (&device, compute));
    let rows = Tensor::cat(vec![same_dtype_as(rows, compute), zeros], 0);
    let slots = rows.select(0, entries).reshape([tokens, k, width]);
    let slots = match probs {
        None => slots,
        Some(probs) => slots * same_dtype_as(probs, compute).unsqueeze_dim(2),
    };
    same_dtype_as(slots.sum_dim(1).reshape([tokens, width]), dtype)
}

/// Panics if the shapes don't fit together.
#[track_caller]
fn check(rows: &Tensor<2>, row_map: &Tensor<2, Int>, probs: Option<&Tensor<2>>) {
    if let Some(probs) = probs {
        assert!(
            probs.dims() == row_map.dims(),
            "moe_unpermute: probabilities are {:?}, but the row map is {:?}, for rows {:?}",
            probs.dims(),
            row_map.dims(),
            rows.dims()
        );
    }
}
