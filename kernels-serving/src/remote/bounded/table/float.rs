//! Operations on floating-point tensors.

use super::prelude::*;

operations! {
    FloatTensorOps;

    fn float_random(
        shape: Shape,
        distribution: Distribution,
        device: &Device<Bounded<B>>,
        dtype: FloatDType,
    ) -> Float<B> = made(shape.as_slice(), dtype).saturating_mul(2);
    fn float_zeros, float_ones, float_empty
        (shape: Shape, device: &Device<Bounded<B>>, dtype: FloatDType) -> Float<B> = made(shape.as_slice(), dtype);
    fn float_full(
        shape: Shape,
        fill_value: Scalar,
        device: &Device<Bounded<B>>,
        dtype: FloatDType,
    ) -> Float<B> = made(shape.as_slice(), dtype);
    fn float_to_device(tensor: Float<B>, device: &Device<Bounded<B>>) -> Float<B> = like(&tensor);
    fn float_into_int(tensor: Float<B>, out_dtype: IntDType) -> Int<B> = cast(&tensor, out_dtype);
    fn float_repeat_dim(
        tensor: Float<B>,
        dim: usize,
        times: usize,
    ) -> Float<B> = like(&tensor).saturating_mul(times);
    fn float_add, float_sub, float_mul, float_div, float_remainder, float_powf, float_hypot, float_atan2
        (lhs: Float<B>, rhs: Float<B>) -> Float<B> = both(&lhs, &rhs);
    fn float_add_scalar, float_sub_scalar, float_mul_scalar, float_div_scalar, float_remainder_scalar,
        float_powi_scalar(lhs: Float<B>, rhs: Scalar) -> Float<B> = like(&lhs);
    fn float_clamp_min(tensor: Float<B>, min: Scalar) -> Float<B> = like(&tensor);
    fn float_clamp_max(tensor: Float<B>, max: Scalar) -> Float<B> = like(&tensor);
    fn float_clamp(tensor: Float<B>, min: Scalar, max: Scalar) -> Float<B> = like(&tensor);
    fn float_matmul(lhs: Float<B>, rhs: Float<B>) -> Float<B> =
        product(&lhs, &rhs), if fit::multiplied(&lhs, &rhs);
    fn float_cross(lhs: Float<B>, rhs: Float<B>, dim: usize) -> Float<B> = both(&lhs, &rhs);
    fn float_neg, float_recip, float_exp, float_log, float_log1p, float_sqrt, float_abs, float_cos, float_sin,
        float_tan, float_cosh, float_sinh, float_tanh, float_acos, float_acosh, float_asin, float_asinh,
        float_atan, float_atanh, float_round, float_floor, float_ceil, float_trunc, float_erf, float_max_abs,
        float_sign(tensor: Float<B>) -> Float<B> = like(&tensor);
    fn float_swap_dims(tensor: Float<B>, dim1: usize, dim2: usize) -> Float<B> =
        0, if fit::swapped(&tensor, dim1, dim2);
    fn float_permute(tensor: Float<B>, axes: &[usize]) -> Float<B> = 0, if fit::permuted(&tensor, axes);
    fn float_flip(tensor: Float<B>, axes: &[usize]) -> Float<B> = 0, if fit::axes(&tensor, axes);
    fn float_reshape(tensor: Float<B>, shape: Shape) -> Float<B> =
        shown(&tensor, &shape), if fit::reshaped(&tensor, &shape);
    fn float_gather(dim: usize, tensor: Float<B>, indices: Int<B>) -> Float<B> = picked(&tensor, &indices);
    fn float_scatter(
        dim: usize,
        tensor: Float<B>,
        indices: Int<B>,
        value: Float<B>,
        update: IndexingUpdateOp,
    ) -> Float<B> = sum([like(&tensor), cast(&indices, DType::I64)]);
    fn float_scatter_nd(
        data: Float<B>,
        indices: Int<B>,
        values: Float<B>,
        reduction: IndexingUpdateOp,
    ) -> Float<B> = sum([like(&data), cast(&indices, DType::I64)]);
    fn float_gather_nd(data: Float<B>, indices: Int<B>) -> Float<B> = selected_nd(&data, &indices);
    fn float_select(
        tensor: Float<B>,
        dim: usize,
        indices: Int<B>,
    ) -> Float<B> = selected(&tensor, dim, &indices);
    fn float_select_assign(
        tensor: Float<B>,
        dim: usize,
        indices: Int<B>,
        value: Float<B>,
        update: IndexingUpdateOp,
    ) -> Float<B> = sum([like(&tensor), cast(&indices, DType::I64)]);
    fn float_slice(tensor: Float<B>, slices: &[Slice]) -> Float<B> = 0, if fit::sliced(&tensor, slices);
    fn float_slice_assign(tensor: Float<B>, slices: &[Slice], value: Float<B>) -> Float<B> =
        like(&tensor), if fit::sliced(&tensor, slices);
    fn float_mask_where(
        tensor: Float<B>,
        mask: Bool<B>,
        value: Float<B>,
    ) -> Float<B> = all_three(&tensor, &mask, &value);
    fn float_mask_fill(tensor: Float<B>, mask: Bool<B>, value: Scalar) -> Float<B> = both(&tensor, &mask);
    fn float_equal, float_not_equal, float_greater, float_greater_equal, float_lower, float_lower_equal
        (lhs: Float<B>, rhs: Float<B>, out_dtype: BoolDType) -> Bool<B> = both(&lhs, &rhs);
    fn float_equal_elem, float_not_equal_elem, float_greater_elem, float_greater_equal_elem, float_lower_elem,
        float_lower_equal_elem(lhs: Float<B>, rhs: Scalar, out_dtype: BoolDType) -> Bool<B> = like(&lhs);
    fn float_sum, float_prod, float_mean, float_max, float_min(tensor: Float<B>) -> Float<B> = reduced_to_one(&tensor);
    fn float_sum_dim, float_prod_dim, float_mean_dim, float_max_dim, float_min_dim
        (tensor: Float<B>, dim: usize) -> Float<B> = reduced(&tensor, dim);
    fn float_sum_dims(tensor: Float<B>, dims: &[usize]) -> Float<B> =
        sum([like(&tensor), reduced_along(&tensor, dims)]);
    fn float_cumsum, float_cumprod, float_cummin, float_cummax
        (tensor: Float<B>, dim: usize) -> Float<B> = like(&tensor);
    fn float_cast(tensor: Float<B>, dtype: FloatDType) -> Float<B> = cast(&tensor, dtype);
    fn float_powi(lhs: Float<B>, rhs: Int<B>) -> Float<B> = both(&lhs, &rhs);
    fn float_powf_scalar, float_powf_scalar_impl(tensor: Float<B>, value: Scalar) -> Float<B> = like(&tensor);
    fn float_cat(tensors: Vec<Float<B>>, dim: usize) -> Float<B> = sum(tensors.iter().map(like));
    fn float_argmax, float_argmin(tensor: Float<B>, dim: usize, out_dtype: IntDType) -> Int<B> = reduced(&tensor, dim);
    fn float_argtopk(tensor: Float<B>, dim: usize, k: usize, out_dtype: IntDType) -> Int<B> =
        sorted(&tensor), if fit::chosen(&tensor, dim, k);
    fn float_topk(tensor: Float<B>, dim: usize, k: usize) -> Float<B> =
        sorted(&tensor), if fit::chosen(&tensor, dim, k);
    fn float_topk_with_indices(
        tensor: Float<B>,
        dim: usize,
        k: usize,
        out_dtype: IntDType,
    ) -> (Float<B>, Int<B>) =
        sorted(&tensor), if fit::chosen(&tensor, dim, k);
    fn float_max_dim_with_indices, float_min_dim_with_indices
        (tensor: Float<B>, dim: usize, indices_dtype: IntDType) -> (Float<B>, Int<B>) = reduced(&tensor, dim);
    fn float_max_abs_dim(tensor: Float<B>, dim: usize) -> Float<B> =
        sum([like(&tensor), reduced(&tensor, dim)]);
    fn float_any, float_all(tensor: Float<B>, out_dtype: BoolDType) -> Bool<B> = reduced_to_one(&tensor);
    fn float_any_dim, float_all_dim
        (tensor: Float<B>, dim: usize, out_dtype: BoolDType) -> Bool<B> = reduced(&tensor, dim);
    fn float_expand(tensor: Float<B>, shape: Shape) -> Float<B> = shown(&tensor, &shape);
    fn float_sort(tensor: Float<B>, dim: usize, descending: bool) -> Float<B> = sorted(&tensor);
    fn float_sort_with_indices(
        tensor: Float<B>,
        dim: usize,
        descending: bool,
        indices_dtype: IntDType,
    ) -> (Float<B>, Int<B>) = sorted(&tensor);
    fn float_argsort(
        tensor: Float<B>,
        dim: usize,
        descending: bool,
        out_dtype: IntDType,
    ) -> Int<B> = sorted(&tensor);
    fn float_grid_sample_2d(
        tensor: Float<B>,
        grid: Float<B>,
        options: GridSampleOptions,
    ) -> Float<B> = planes(&tensor, size(&tensor, 1), &[size(&grid, 1), size(&grid, 2)]);
    fn float_unfold(
        tensor: Float<B>,
        dim: usize,
        size: usize,
        step: usize,
    ) -> Float<B> = windows(&tensor, dim, size, step);
    fn float_is_nan, float_is_inf(tensor: Float<B>, out_dtype: BoolDType) -> Bool<B> = like(&tensor);
    fn float_pad(
        tensor: Float<B>,
        padding: &[(usize, usize)],
        mode: PadMode,
    ) -> Float<B> = padded(&tensor, padding);
    data: float_from_data, float_into_data, Float;
}
