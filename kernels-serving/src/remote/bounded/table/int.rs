//! Operations on integer tensors.

use super::prelude::*;

operations! {
    IntTensorOps;

    fn int_empty, int_zeros, int_ones
        (shape: Shape, device: &Device<Bounded<B>>, dtype: IntDType) -> Int<B> = made(shape.as_slice(), dtype);
    fn int_to_device(tensor: Int<B>, device: &Device<Bounded<B>>) -> Int<B> = like(&tensor);
    fn int_reshape(tensor: Int<B>, shape: Shape) -> Int<B> =
        shown(&tensor, &shape), if fit::reshaped(&tensor, &shape);
    fn int_slice(tensor: Int<B>, slices: &[Slice]) -> Int<B> = 0, if fit::sliced(&tensor, slices);
    fn int_slice_assign(tensor: Int<B>, slices: &[Slice], value: Int<B>) -> Int<B> =
        like(&tensor), if fit::sliced(&tensor, slices);
    fn int_into_float(tensor: Int<B>, out_dtype: FloatDType) -> Float<B> = cast(&tensor, out_dtype);
    fn int_mask_where(
        tensor: Int<B>,
        mask: Bool<B>,
        value: Int<B>,
    ) -> Int<B> = all_three(&tensor, &mask, &value);
    fn int_mask_fill(tensor: Int<B>, mask: Bool<B>, value: Scalar) -> Int<B> = both(&tensor, &mask);
    fn int_gather(dim: usize, tensor: Int<B>, indices: Int<B>) -> Int<B> = picked(&tensor, &indices);
    fn int_scatter(
        dim: usize,
        tensor: Int<B>,
        indices: Int<B>,
        value: Int<B>,
        update: IndexingUpdateOp,
    ) -> Int<B> = sum([like(&tensor), cast(&indices, DType::I64)]);
    fn int_scatter_nd(
        data: Int<B>,
        indices: Int<B>,
        values: Int<B>,
        reduction: IndexingUpdateOp,
    ) -> Int<B> = sum([like(&data), cast(&indices, DType::I64)]);
    fn int_gather_nd(data: Int<B>, indices: Int<B>) -> Int<B> = selected_nd(&data, &indices);
    fn int_select(tensor: Int<B>, dim: usize, indices: Int<B>) -> Int<B> = selected(&tensor, dim, &indices);
    fn int_select_assign(
        tensor: Int<B>,
        dim: usize,
        indices: Int<B>,
        value: Int<B>,
        update: IndexingUpdateOp,
    ) -> Int<B> = sum([like(&tensor), cast(&indices, DType::I64)]);
    fn int_repeat_dim(
        tensor: Int<B>,
        dim: usize,
        times: usize,
    ) -> Int<B> = like(&tensor).saturating_mul(times);
    fn int_cat(tensors: Vec<Int<B>>, dim: usize) -> Int<B> = sum(tensors.iter().map(like));
    fn int_equal, int_not_equal, int_greater, int_greater_equal, int_lower, int_lower_equal
        (lhs: Int<B>, rhs: Int<B>, out_dtype: BoolDType) -> Bool<B> = both(&lhs, &rhs);
    fn int_equal_elem, int_not_equal_elem, int_greater_elem, int_greater_equal_elem, int_lower_elem,
        int_lower_equal_elem(lhs: Int<B>, rhs: Scalar, out_dtype: BoolDType) -> Bool<B> = like(&lhs);
    fn int_add, int_powi, int_sub, int_mul, int_div, int_remainder, bitwise_and, bitwise_or, bitwise_xor,
        bitwise_left_shift, bitwise_right_shift(lhs: Int<B>, rhs: Int<B>) -> Int<B> = both(&lhs, &rhs);
    fn int_add_scalar, int_powi_scalar, int_sub_scalar, int_mul_scalar, int_div_scalar, int_remainder_scalar,
        bitwise_and_scalar, bitwise_or_scalar, bitwise_xor_scalar, bitwise_left_shift_scalar,
        bitwise_right_shift_scalar(lhs: Int<B>, rhs: Scalar) -> Int<B> = like(&lhs);
    fn int_clamp_min(tensor: Int<B>, min: Scalar) -> Int<B> = like(&tensor);
    fn int_clamp_max(tensor: Int<B>, max: Scalar) -> Int<B> = like(&tensor);
    fn int_clamp(tensor: Int<B>, min: Scalar, max: Scalar) -> Int<B> = like(&tensor);
    fn int_matmul(lhs: Int<B>, rhs: Int<B>) -> Int<B> =
        product(&lhs, &rhs), if fit::multiplied(&lhs, &rhs);
    fn int_neg, int_max_abs, int_abs, int_sign, bitwise_not(tensor: Int<B>) -> Int<B> = like(&tensor);
    fn int_full(
        shape: Shape,
        fill_value: Scalar,
        device: &Device<Bounded<B>>,
        dtype: IntDType,
    ) -> Int<B> = made(shape.as_slice(), dtype);
    fn int_sum, int_prod, int_mean, int_max, int_min(tensor: Int<B>) -> Int<B> = reduced_to_one(&tensor);
    fn int_sum_dim, int_prod_dim, int_mean_dim, int_argmax, int_argmin, int_max_dim, int_min_dim
        (tensor: Int<B>, dim: usize) -> Int<B> = reduced(&tensor, dim);
    fn int_cumsum, int_cumprod, int_cummin, int_cummax(tensor: Int<B>, dim: usize) -> Int<B> = like(&tensor);
    fn int_argtopk, int_topk
        (tensor: Int<B>, dim: usize, k: usize) -> Int<B> = sorted(&tensor), if fit::chosen(&tensor, dim, k);
    fn int_topk_with_indices(tensor: Int<B>, dim: usize, k: usize) -> (Int<B>, Int<B>) =
        sorted(&tensor), if fit::chosen(&tensor, dim, k);
    fn int_max_dim_with_indices, int_min_dim_with_indices
        (tensor: Int<B>, dim: usize) -> (Int<B>, Int<B>) = reduced(&tensor, dim);
    fn int_max_abs_dim(tensor: Int<B>, dim: usize) -> Int<B> =
        sum([like(&tensor), reduced(&tensor, dim)]);
    fn int_swap_dims(tensor: Int<B>, dim1: usize, dim2: usize) -> Int<B> =
        0, if fit::swapped(&tensor, dim1, dim2);
    fn int_permute(tensor: Int<B>, axes: &[usize]) -> Int<B> = 0, if fit::permuted(&tensor, axes);
    fn int_flip(tensor: Int<B>, axes: &[usize]) -> Int<B> = 0, if fit::axes(&tensor, axes);
    fn int_random(
        shape: Shape,
        distribution: Distribution,
        device: &Device<Bounded<B>>,
        dtype: IntDType,
    ) -> Int<B> = made(shape.as_slice(), dtype).saturating_mul(2);
    fn int_any, int_all(tensor: Int<B>, out_dtype: BoolDType) -> Bool<B> = reduced_to_one(&tensor);
    fn int_any_dim, int_all_dim(tensor: Int<B>, dim: usize, out_dtype: BoolDType) -> Bool<B> = reduced(&tensor, dim);
    fn int_expand(tensor: Int<B>, shape: Shape) -> Int<B> = shown(&tensor, &shape);
    fn int_sort, int_argsort(tensor: Int<B>, dim: usize, descending: bool) -> Int<B> = sorted(&tensor);
    fn int_sort_with_indices(
        tensor: Int<B>,
        dim: usize,
        descending: bool,
    ) -> (Int<B>, Int<B>) = sorted(&tensor);
    fn int_cast(tensor: Int<B>, dtype: IntDType) -> Int<B> = cast(&tensor, dtype);
    fn int_unfold(
        tensor: Int<B>,
        dim: usize,
        size: usize,
        step: usize,
    ) -> Int<B> = windows(&tensor, dim, size, step);
    fn int_pad(
        tensor: Int<B>,
        padding: &[(usize, usize)],
        mode: PadMode,
    ) -> Int<B> = padded(&tensor, padding);
    data: int_from_data, int_into_data, Int;
}
