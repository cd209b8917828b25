use super::Permuted;
use crate::ops::{compute_dtype, same_dtype_as};
use burn::tensor::{IndexingUpdateOp, Int, IntDType, Tensor};

/// Sorting by expert composed of plain tensor operations, on any backend: the definition that
/// kernels are verified against. See [`fused`](super::fused()) for shapes.
///
/// # Panics
/// The shapes don't fit together, or there is no expert.
pub fn reference(
    tokens: Tensor<2>,
    indices: Tensor<2, Int>,
    num_experts: usize,
    num_out_tokens: Option<usize>,
) -> Permuted {
    let rows = super::check(&tokens, &indices, num_experts, num_out_tokens);
    let ([count, width], [_, k]) = (tokens.dims(), indices.dims());
    let (device, slots, none) = (tokens.device(), count * k, num_experts as i64);
    let ints = device.settings().int_dtype;
    if slots == 0 {
        let nothing = Tensor::<1, Int>::zeros([0], &device);
        return Permuted {
            rows: tokens.select(0, nothing),
            row_map: Tensor::zeros([count, k], &device),
            counts: Tensor::zeros([num_experts], &device),
        };
    }
    // Wide enough for the keys below.
    let wide = match i32::try_from((num_experts + 1) * slots) {
        Ok(_) => IntDType::I32,
        Err(_) => IntDType::I64,
    };
    let expert = indices.reshape([slots]).cast(wide);
    let skipped = expert
        .clone()
        .lower_elem(0)
        .bool_or(expert.clone().greater_equal_elem(none));
    let expert = expert.mask_fill(skipped.clone(), none);

    // Burn's sort is not stable: the slot's own number in the key makes every key different.
    let slot = Tensor::<1, Int>::arange(0..slots as i64, &device).cast(wide);
    let order = (expert.clone().mul_scalar(slots as i64) + slot).argsort(0);
    let row_map = order
        .clone()
        .argsort(0)
        .mask_fill(skipped, slots as i64)
        .reshape([count, k])
        .cast(ints);

    let order = order.slice(0..rows);
    let owner = expert.gather(0, order.clone());
    let counts = Tensor::<1, Int>::zeros([num_experts + 1], &device).scatter(
        0,
        owner.clone(),
        Tensor::ones([rows], &device),
        IndexingUpdateOp::Add,
    );
    // A row of nobody copies one more row, of zeros.
    let source = order
        .div_scalar(k as i64)
        .mask_fill(owner.equal_elem(none), count as i64);
    let dtype = tokens.dtype();
    let compute = compute_dtype(dtype);
    let zeros = Tensor::zeros([1, width], (&device, compute));
    let tokens = Tensor::cat(vec![same_dtype_as(tokens, compute), zeros], 0);
    Permuted {
        rows: same_dtype_as(tokens.select(0, source), dtype),
        row_map,
        counts: counts.narrow(0, 0, num_experts),
    }
}
