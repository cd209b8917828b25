use super::super::sort::by_expert;
use super::Permuted;
use crate::ops::{compute_dtype, same_dtype_as};
use burn::tensor::{DType, IndexingUpdateOp, Int, IntDType, Tensor};

/// Sorts by expert with plain tensor operations, on any backend: the definition that
/// kernels are verified against. See [`fused`](super::fused()) for shapes.
///
/// Reads the smallest and the largest index, which waits for the device.
///
/// # Panics
/// Panics as [`fused`](super::fused()) does on the CPU, on every device.
pub fn reference(
    tokens: Tensor<2>,
    indices: Tensor<2, Int>,
    num_experts: usize,
    num_out_tokens: Option<usize>,
) -> Permuted {
    let rows = super::check(&tokens, &indices, num_experts, num_out_tokens);
    let ([count, _], [_, k]) = (tokens.dims(), indices.dims());
    let (device, slots) = (tokens.device(), count * k);
    if slots == 0 {
        let nothing = Tensor::<1, Int>::zeros([0], &device);
        return Permuted {
            rows: tokens.select(0, nothing),
            row_map: Tensor::zeros([count, k], &device),
            counts: Tensor::zeros([num_experts], &device),
        };
    }
    let Sorted {
        order,
        row_map,
        owner,
    } = sort(indices, num_experts);
    let (order, owner) = (order.slice(0..rows), owner.slice(0..rows));
    let of_nobody = owner.clone().equal_elem(num_experts as i64);
    let source = order
        .div_scalar(k as i64)
        .mask_fill(of_nobody, count as i64);
    let counts = Tensor::<1, Int>::zeros([num_experts + 1], &device).scatter(
        0,
        owner,
        Tensor::ones([rows], &device),
        IndexingUpdateOp::Add,
    );
    Permuted {
        rows: select(tokens, source),
        row_map: row_map.reshape([count, k]),
        counts: counts.narrow(0, 0, num_experts),
    }
}

/// Slots sorted by expert. Slots without an expert come last.
struct Sorted {
    /// The slot of each row.
    order: Tensor<1, Int>,
    /// The row of each slot, or the number of slots if it has none.
    row_map: Tensor<1, Int>,
    /// The expert of each row, or the number of experts if it has none.
    owner: Tensor<1, Int>,
}

fn sort(indices: Tensor<2, Int>, num_experts: usize) -> Sorted {
    let ([tokens, k], device) = (indices.dims(), indices.device());
    let (slots, none) = (tokens * k, num_experts as i64);
    let expert = indices.clone().reshape([slots]);
    // Clamped before it is narrowed: no index may wrap to the number of an expert.
    let expert = match expert.dtype() {
        DType::I32 | DType::I64 => expert,
        _ => expert.cast(IntDType::I64),
    };
    // The type must hold the keys below.
    let wide = match i32::try_from((num_experts + 2) * slots) {
        Ok(_) => IntDType::I32,
        Err(_) => IntDType::I64,
    };
    // Indices outside the range stay outside, but their keys can't overflow.
    let expert = expert.clamp(-1, none + 1).cast(wide);

    // Burn's sort is not stable. The slot's number in the key makes every key different.
    let slot = Tensor::<1, Int>::arange(0..slots as i64, &device).cast(wide);
    let order = (expert.clone().mul_scalar(slots as i64) + slot).argsort(0);
    let owner = expert.clone().gather(0, order.clone());
    refuse_others(&owner, indices, num_experts);
    let skipped = expert.equal_elem(none);
    let row_map = order.clone().argsort(0).mask_fill(skipped, slots as i64);
    Sorted {
        owner,
        order,
        row_map: row_map.cast(device.settings().int_dtype),
    }
}

/// Panics if there are indices other than `0..=num_experts`. Sorted, only the first and the last need a check.
#[track_caller]
fn refuse_others(owner: &Tensor<1, Int>, indices: Tensor<2, Int>, num_experts: usize) {
    let last = owner.dims()[0] - 1;
    let ends = [0, last].map(|end| owner.clone().slice(end..end + 1));
    let ends: Vec<i64> = Tensor::cat(ends.into(), 0).into_data().iter().collect();
    if ends[0] < 0 || ends[1] > num_experts as i64 {
        // Panics with the token of the index.
        by_expert(&indices.into_data(), num_experts);
        unreachable!("an index is outside");
    }
}

/// Returns the tokens with these numbers. The number after the last gives zeros.
fn select(tokens: Tensor<2>, source: Tensor<1, Int>) -> Tensor<2> {
    let (dtype, [_, width]) = (tokens.dtype(), tokens.dims());
    // The gradient is summed in this dtype.
    let compute = compute_dtype(dtype);
    let zeros = Tensor::zeros([1, width], (&tokens.device(), compute));
    let tokens = Tensor::cat(vec![same_dtype_as(tokens, compute), zeros], 0);
    same_dtype_as(tokens.select(0, source), dtype)
}
