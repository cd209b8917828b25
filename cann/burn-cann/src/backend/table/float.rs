//! Operations on floating-point tensors.

use super::prelude::*;

operations! {
    FloatTensorOps, "float";

    fn float_from_data(data: TensorData, device: &CannDevice) -> Float = data {
        upload(&statics::float_from_data, data, *device)
    };
    fn float_random(
        shape: Shape,
        distribution: Distribution,
        device: &CannDevice,
        dtype: FloatDType,
    ) -> Float = native(random::floats);
    fn float_zeros(shape: Shape, device: &CannDevice, dtype: FloatDType) -> Float = native(create::zeros);
    fn float_ones(shape: Shape, device: &CannDevice, dtype: FloatDType) -> Float = native(create::ones);
    fn float_full(shape: Shape, fill_value: Scalar, device: &CannDevice, dtype: FloatDType) -> Float =
        native(create::full);
    fn float_into_data(
        tensor: Float,
    ) -> impl Future<Output = Result<TensorData, ExecutionError>> + Send = data {
        std::future::ready(transfer::data(&tensor))
    };
    fn float_to_device(tensor: Float, device: &CannDevice) -> Float = data {
        carry(&statics::float_to_device, tensor, *device)
    };
    fn float_into_int(tensor: Float, out_dtype: IntDType) -> Int = native(copy::cast);
    fn float_empty(shape: Shape, device: &CannDevice, dtype: FloatDType) -> Float = native(create::empty);
    fn float_repeat_dim(tensor: Float, dim: usize, times: usize) -> Float = native(copy::repeat_dim);
    fn float_add(lhs: Float, rhs: Float) -> Float = native(two(Binary::Add));
    fn float_add_scalar(lhs: Float, rhs: Scalar) -> Float = native(by(BinaryScalar::Add));
    fn float_clamp_min(tensor: Float, min: Scalar) -> Float = native(bounded(BinaryScalar::ClampMin));
    fn float_clamp_max(tensor: Float, max: Scalar) -> Float = native(bounded(BinaryScalar::ClampMax));
    fn float_clamp(tensor: Float, min: Scalar, max: Scalar) -> Float = native(elementwise::clamp);
    fn float_sub(lhs: Float, rhs: Float) -> Float = native(two(Binary::Sub));
    fn float_sub_scalar(lhs: Float, rhs: Scalar) -> Float = native(by(BinaryScalar::Sub));
    fn float_mul(lhs: Float, rhs: Float) -> Float = native(two(Binary::Mul));
    fn float_mul_scalar(lhs: Float, rhs: Scalar) -> Float = native(by(BinaryScalar::Mul));
    fn float_div(lhs: Float, rhs: Float) -> Float = native(two(Binary::Div));
    fn float_div_scalar(lhs: Float, rhs: Scalar) -> Float = native(by(BinaryScalar::Div));
    fn float_remainder(lhs: Float, rhs: Float) -> Float = native(two(Binary::Remainder));
    fn float_remainder_scalar(lhs: Float, rhs: Scalar) -> Float = native(by(BinaryScalar::Remainder));
    fn float_matmul(lhs: Float, rhs: Float) -> Float = native(product::matmul);
    fn float_cross(lhs: Float, rhs: Float, dim: usize) -> Float = native(elementwise::cross);
    fn float_neg(tensor: Float) -> Float = native(one(Unary::Neg));
    fn float_recip(tensor: Float) -> Float = native(one(Unary::Reciprocal));
    fn float_swap_dims(tensor: Float, dim1: usize, dim2: usize) -> Float = view(view::swap_dims);
    fn float_permute(tensor: Float, axes: &[usize]) -> Float = view(view::permute);
    fn float_flip(tensor: Float, axes: &[usize]) -> Float = native(sort::flip);
    fn float_reshape(tensor: Float, shape: Shape) -> Float = view(view::reshape);
    fn float_gather(dim: usize, tensor: Float, indices: Int) -> Float = native(index::gather);
    fn float_scatter(
        dim: usize,
        tensor: Float,
        indices: Int,
        value: Float,
        update: IndexingUpdateOp,
    ) -> Float = native(index::scatter);
    fn float_scatter_nd(data: Float, indices: Int, values: Float, reduction: IndexingUpdateOp) -> Float =
        host;
    fn float_gather_nd(data: Float, indices: Int) -> Float = host;
    fn float_select(tensor: Float, dim: usize, indices: Int) -> Float = native(index::select);
    fn float_select_assign(
        tensor: Float,
        dim: usize,
        indices: Int,
        value: Float,
        update: IndexingUpdateOp,
    ) -> Float = native(index::select_assign);
    fn float_slice(tensor: Float, slices: &[Slice]) -> Float = view(view::slice);
    fn float_slice_assign(tensor: Float, slices: &[Slice], value: Float) -> Float =
        native(copy::slice_assign);
    fn float_mask_where(tensor: Float, mask: Bool, value: Float) -> Float = native(elementwise::mask_where);
    fn float_mask_fill(tensor: Float, mask: Bool, value: Scalar) -> Float = native(create::mask_fill);
    fn float_equal(lhs: Float, rhs: Float, out_dtype: BoolDType) -> Bool =
        native(compare(Comparison::Equal));
    fn float_not_equal(lhs: Float, rhs: Float, out_dtype: BoolDType) -> Bool =
        native(compare(Comparison::NotEqual));
    fn float_equal_elem(lhs: Float, rhs: Scalar, out_dtype: BoolDType) -> Bool =
        native(compare_by(ComparisonScalar::Equal));
    fn float_not_equal_elem(lhs: Float, rhs: Scalar, out_dtype: BoolDType) -> Bool =
        native(compare_by(ComparisonScalar::NotEqual));
    fn float_greater(lhs: Float, rhs: Float, out_dtype: BoolDType) -> Bool =
        native(compare(Comparison::Greater));
    fn float_greater_elem(lhs: Float, rhs: Scalar, out_dtype: BoolDType) -> Bool =
        native(compare_by(ComparisonScalar::Greater));
    fn float_greater_equal(lhs: Float, rhs: Float, out_dtype: BoolDType) -> Bool =
        native(compare(Comparison::GreaterEqual));
    fn float_greater_equal_elem(lhs: Float, rhs: Scalar, out_dtype: BoolDType) -> Bool =
        native(compare_by(ComparisonScalar::GreaterEqual));
    fn float_lower(lhs: Float, rhs: Float, out_dtype: BoolDType) -> Bool =
        native(compare(Comparison::Lower));
    fn float_lower_elem(lhs: Float, rhs: Scalar, out_dtype: BoolDType) -> Bool =
        native(compare_by(ComparisonScalar::Lower));
    fn float_lower_equal(lhs: Float, rhs: Float, out_dtype: BoolDType) -> Bool =
        native(compare(Comparison::LowerEqual));
    fn float_lower_equal_elem(lhs: Float, rhs: Scalar, out_dtype: BoolDType) -> Bool =
        native(compare_by(ComparisonScalar::LowerEqual));
    fn float_sum(tensor: Float) -> Float = native(reduce::all(op::sum));
    fn float_sum_dim(tensor: Float, dim: usize) -> Float = native(reduce::along(op::sum));
    fn float_sum_dims(tensor: Float, dims: &[usize]) -> Float = native(reduce::over(op::sum));
    fn float_prod(tensor: Float) -> Float = native(reduce::prod);
    fn float_prod_dim(tensor: Float, dim: usize) -> Float = native(reduce::prod_dim);
    fn float_mean(tensor: Float) -> Float = native(reduce::all(op::mean));
    fn float_mean_dim(tensor: Float, dim: usize) -> Float = native(reduce::along(op::mean));
    fn float_cumsum(tensor: Float, dim: usize) -> Float = native(reduce::cumsum);
    fn float_cumprod(tensor: Float, dim: usize) -> Float = native(reduce::cumprod);
    fn float_cummin(tensor: Float, dim: usize) -> Float = host;
    fn float_cummax(tensor: Float, dim: usize) -> Float = host;
    fn float_cast(tensor: Float, dtype: FloatDType) -> Float = native(copy::cast);
    fn float_exp(tensor: Float) -> Float = native(one(Unary::Exp));
    fn float_log(tensor: Float) -> Float = native(one(Unary::Log));
    fn float_log1p(tensor: Float) -> Float = native(one(Unary::Log1p));
    fn float_powf(lhs: Float, rhs: Float) -> Float = native(two(Binary::Pow));
    fn float_powf_scalar_impl(tensor: Float, value: Scalar) -> Float = native(by(BinaryScalar::Pow));
    fn float_sqrt(tensor: Float) -> Float = native(one(Unary::Sqrt));
    // Burn's default overflows, and returns NaN if one side is infinite.
    fn float_hypot(lhs: Float, rhs: Float) -> Float = host;
    fn float_abs(tensor: Float) -> Float = native(one(Unary::Abs));
    fn float_cos(tensor: Float) -> Float = native(one(Unary::Cos));
    fn float_sin(tensor: Float) -> Float = native(one(Unary::Sin));
    fn float_tan(tensor: Float) -> Float = native(one(Unary::Tan));
    fn float_cosh(tensor: Float) -> Float = native(one(Unary::Cosh));
    fn float_sinh(tensor: Float) -> Float = native(one(Unary::Sinh));
    fn float_tanh(tensor: Float) -> Float = native(one(Unary::Tanh));
    fn float_acos(tensor: Float) -> Float = native(one(Unary::Acos));
    fn float_acosh(tensor: Float) -> Float = native(one(Unary::Acosh));
    fn float_asin(tensor: Float) -> Float = native(one(Unary::Asin));
    fn float_asinh(tensor: Float) -> Float = native(one(Unary::Asinh));
    fn float_atan(tensor: Float) -> Float = native(one(Unary::Atan));
    fn float_atanh(tensor: Float) -> Float = native(one(Unary::Atanh));
    fn float_atan2(lhs: Float, rhs: Float) -> Float = native(two(Binary::Atan2));
    fn float_round(tensor: Float) -> Float = native(one(Unary::Round));
    fn float_floor(tensor: Float) -> Float = native(one(Unary::Floor));
    fn float_ceil(tensor: Float) -> Float = native(one(Unary::Ceil));
    fn float_trunc(tensor: Float) -> Float = native(one(Unary::Trunc));
    fn float_erf(tensor: Float) -> Float = native(one(Unary::Erf));
    fn float_cat(tensors: Vec<Float>, dim: usize) -> Float = native(copy::cat);
    fn float_argmax(tensor: Float, dim: usize, out_dtype: IntDType) -> Int =
        native(reduce::places(op::arg_max));
    fn float_argtopk(tensor: Float, dim: usize, k: usize, out_dtype: IntDType) -> Int =
        native(sort::argtopk);
    fn float_topk(tensor: Float, dim: usize, k: usize) -> Float = native(sort::topk);
    fn float_topk_with_indices(tensor: Float, dim: usize, k: usize, out_dtype: IntDType) -> (Float, Int) =
        native(sort::topk_with_places);
    fn float_argmin(tensor: Float, dim: usize, out_dtype: IntDType) -> Int =
        native(reduce::places(op::arg_min));
    fn float_max(tensor: Float) -> Float = native(reduce::all(op::amax));
    fn float_max_dim(tensor: Float, dim: usize) -> Float = native(reduce::along(op::amax));
    fn float_max_dim_with_indices(tensor: Float, dim: usize, indices_dtype: IntDType) -> (Float, Int) =
        native(reduce::with_places(op::max_dim));
    fn float_min(tensor: Float) -> Float = native(reduce::all(op::amin));
    fn float_min_dim(tensor: Float, dim: usize) -> Float = native(reduce::along(op::amin));
    fn float_min_dim_with_indices(tensor: Float, dim: usize, indices_dtype: IntDType) -> (Float, Int) =
        native(reduce::with_places(op::min_dim));
    fn float_any(tensor: Float, out_dtype: BoolDType) -> Bool = native(reduce::truth(op::any));
    fn float_any_dim(tensor: Float, dim: usize, out_dtype: BoolDType) -> Bool =
        native(reduce::truth_along(op::any));
    fn float_all(tensor: Float, out_dtype: BoolDType) -> Bool = native(reduce::truth(op::all));
    fn float_all_dim(tensor: Float, dim: usize, out_dtype: BoolDType) -> Bool =
        native(reduce::truth_along(op::all));
    fn float_expand(tensor: Float, shape: Shape) -> Float = view(view::expand);
    fn float_sort(tensor: Float, dim: usize, descending: bool) -> Float = native(sort::sort);
    fn float_sort_with_indices(
        tensor: Float,
        dim: usize,
        descending: bool,
        indices_dtype: IntDType,
    ) -> (Float, Int) = native(sort::sort_with_places);
    fn float_argsort(tensor: Float, dim: usize, descending: bool, out_dtype: IntDType) -> Int =
        native(sort::argsort);
    fn float_grid_sample_2d(tensor: Float, grid: Float, options: GridSampleOptions) -> Float = host;
    fn float_unfold(tensor: Float, dim: usize, size: usize, step: usize) -> Float = view(view::unfold);

    composed:
        float_transpose, float_mask_select, float_detach, float_set_require_grad, float_is_require_grad,
        float_powi, float_powi_scalar, float_powi_scalar_impl, float_powf_scalar, float_max_abs,
        float_max_abs_dim, float_sign, float_is_nan, float_is_inf, float_pad;
}
