//! Operations on integer tensors.

use super::prelude::*;

operations! {
    IntTensorOps, "int";

    fn int_empty(shape: Shape, device: &CannDevice, dtype: IntDType) -> Int = native(create::empty);
    fn int_into_data(
        tensor: Int,
    ) -> impl Future<Output = Result<TensorData, ExecutionError>> + Send = data {
        std::future::ready(transfer::data(&tensor))
    };
    fn int_from_data(data: TensorData, device: &CannDevice) -> Int = data {
        upload(&statics::int_from_data, data, *device)
    };
    fn int_to_device(tensor: Int, device: &CannDevice) -> Int = data {
        carry(&statics::int_to_device, tensor, *device)
    };
    fn int_reshape(tensor: Int, shape: Shape) -> Int = view(view::reshape);
    fn int_slice(tensor: Int, slices: &[Slice]) -> Int = view(view::slice);
    fn int_slice_assign(tensor: Int, slices: &[Slice], value: Int) -> Int = native(copy::slice_assign);
    fn int_into_float(tensor: Int, out_dtype: FloatDType) -> Float = native(copy::cast);
    fn int_mask_where(tensor: Int, mask: Bool, value: Int) -> Int = native(elementwise::mask_where);
    fn int_mask_fill(tensor: Int, mask: Bool, value: Scalar) -> Int = native(create::mask_fill);
    fn int_gather(dim: usize, tensor: Int, indices: Int) -> Int = native(index::gather);
    fn int_scatter(dim: usize, tensor: Int, indices: Int, value: Int, update: IndexingUpdateOp) -> Int =
        native(index::scatter);
    fn int_scatter_nd(data: Int, indices: Int, values: Int, reduction: IndexingUpdateOp) -> Int = host;
    fn int_gather_nd(data: Int, indices: Int) -> Int = host;
    fn int_select(tensor: Int, dim: usize, indices: Int) -> Int = native(index::select);
    fn int_select_assign(
        tensor: Int,
        dim: usize,
        indices: Int,
        value: Int,
        update: IndexingUpdateOp,
    ) -> Int = native(index::select_assign);
    fn int_repeat_dim(tensor: Int, dim: usize, times: usize) -> Int = native(copy::repeat_dim);
    fn int_cat(tensors: Vec<Int>, dim: usize) -> Int = native(copy::cat);
    fn int_equal(lhs: Int, rhs: Int, out_dtype: BoolDType) -> Bool = native(compare(Comparison::Equal));
    fn int_not_equal(lhs: Int, rhs: Int, out_dtype: BoolDType) -> Bool =
        native(compare(Comparison::NotEqual));
    fn int_equal_elem(lhs: Int, rhs: Scalar, out_dtype: BoolDType) -> Bool =
        native(compare_by(ComparisonScalar::Equal));
    fn int_not_equal_elem(lhs: Int, rhs: Scalar, out_dtype: BoolDType) -> Bool =
        native(compare_by(ComparisonScalar::NotEqual));
    fn int_greater(lhs: Int, rhs: Int, out_dtype: BoolDType) -> Bool = native(compare(Comparison::Greater));
    fn int_greater_elem(lhs: Int, rhs: Scalar, out_dtype: BoolDType) -> Bool =
        native(compare_by(ComparisonScalar::Greater));
    fn int_greater_equal(lhs: Int, rhs: Int, out_dtype: BoolDType) -> Bool =
        native(compare(Comparison::GreaterEqual));
    fn int_greater_equal_elem(lhs: Int, rhs: Scalar, out_dtype: BoolDType) -> Bool =
        native(compare_by(ComparisonScalar::GreaterEqual));
    fn int_lower(lhs: Int, rhs: Int, out_dtype: BoolDType) -> Bool = native(compare(Comparison::Lower));
    fn int_lower_elem(lhs: Int, rhs: Scalar, out_dtype: BoolDType) -> Bool =
        native(compare_by(ComparisonScalar::Lower));
    fn int_lower_equal(lhs: Int, rhs: Int, out_dtype: BoolDType) -> Bool =
        native(compare(Comparison::LowerEqual));
    fn int_lower_equal_elem(lhs: Int, rhs: Scalar, out_dtype: BoolDType) -> Bool =
        native(compare_by(ComparisonScalar::LowerEqual));
    fn int_add(lhs: Int, rhs: Int) -> Int = native(two(Binary::Add));
    fn int_add_scalar(lhs: Int, rhs: Scalar) -> Int = native(by(BinaryScalar::Add));
    fn int_powi(lhs: Int, rhs: Int) -> Int = host;
    fn int_powi_scalar_impl(lhs: Int, rhs: Scalar) -> Int = host;
    fn int_clamp_min(tensor: Int, min: Scalar) -> Int = native(by(BinaryScalar::ClampMin));
    fn int_clamp_max(tensor: Int, max: Scalar) -> Int = native(by(BinaryScalar::ClampMax));
    fn int_clamp(tensor: Int, min: Scalar, max: Scalar) -> Int = native(elementwise::clamp);
    fn int_sub(lhs: Int, rhs: Int) -> Int = native(two(Binary::Sub));
    fn int_sub_scalar(lhs: Int, rhs: Scalar) -> Int = native(by(BinaryScalar::Sub));
    fn int_mul(lhs: Int, rhs: Int) -> Int = native(two(Binary::Mul));
    fn int_mul_scalar(lhs: Int, rhs: Scalar) -> Int = native(by(BinaryScalar::Mul));
    fn int_div(lhs: Int, rhs: Int) -> Int = native(two(Binary::DivTrunc));
    fn int_div_scalar(lhs: Int, rhs: Scalar) -> Int = native(by(BinaryScalar::DivTrunc));
    fn int_remainder(lhs: Int, rhs: Int) -> Int = native(two(Binary::Remainder));
    fn int_remainder_scalar(lhs: Int, rhs: Scalar) -> Int = native(by(BinaryScalar::Remainder));
    fn int_matmul(lhs: Int, rhs: Int) -> Int = host;
    // Burn's default multiplies by -1, which unsigned dtypes don't have.
    fn int_neg(tensor: Int) -> Int = native(one(Unary::Neg));
    fn int_zeros(shape: Shape, device: &CannDevice, dtype: IntDType) -> Int = native(create::zeros);
    fn int_ones(shape: Shape, device: &CannDevice, dtype: IntDType) -> Int = native(create::ones);
    fn int_full(shape: Shape, fill_value: Scalar, device: &CannDevice, dtype: IntDType) -> Int =
        native(create::full);
    fn int_sum(tensor: Int) -> Int = native(reduce::all(op::sum));
    fn int_sum_dim(tensor: Int, dim: usize) -> Int = native(reduce::along(op::sum));
    fn int_prod(tensor: Int) -> Int = native(reduce::prod);
    fn int_prod_dim(tensor: Int, dim: usize) -> Int = native(reduce::prod_dim);
    fn int_mean_dim(tensor: Int, dim: usize) -> Int = native(reduce::int_mean_dim);
    fn int_cumsum(tensor: Int, dim: usize) -> Int = native(reduce::cumsum);
    fn int_cumprod(tensor: Int, dim: usize) -> Int = native(reduce::cumprod);
    fn int_cummin(tensor: Int, dim: usize) -> Int = host;
    fn int_cummax(tensor: Int, dim: usize) -> Int = host;
    fn int_argmax(tensor: Int, dim: usize) -> Int = native(reduce::int_places(op::arg_max));
    fn int_argtopk(tensor: Int, dim: usize, k: usize) -> Int = native(sort::int_argtopk);
    fn int_topk(tensor: Int, dim: usize, k: usize) -> Int = native(sort::topk);
    fn int_topk_with_indices(tensor: Int, dim: usize, k: usize) -> (Int, Int) =
        native(sort::int_topk_with_places);
    fn int_argmin(tensor: Int, dim: usize) -> Int = native(reduce::int_places(op::arg_min));
    fn int_max(tensor: Int) -> Int = native(reduce::all(op::amax));
    fn int_max_dim(tensor: Int, dim: usize) -> Int = native(reduce::along(op::amax));
    fn int_max_dim_with_indices(tensor: Int, dim: usize) -> (Int, Int) =
        native(reduce::int_with_places(op::max_dim));
    fn int_min(tensor: Int) -> Int = native(reduce::all(op::amin));
    fn int_min_dim(tensor: Int, dim: usize) -> Int = native(reduce::along(op::amin));
    fn int_min_dim_with_indices(tensor: Int, dim: usize) -> (Int, Int) =
        native(reduce::int_with_places(op::min_dim));
    fn int_abs(tensor: Int) -> Int = native(one(Unary::Abs));
    fn int_swap_dims(tensor: Int, dim1: usize, dim2: usize) -> Int = view(view::swap_dims);
    fn int_permute(tensor: Int, axes: &[usize]) -> Int = view(view::permute);
    fn int_flip(tensor: Int, axes: &[usize]) -> Int = native(sort::flip);
    fn int_random(shape: Shape, distribution: Distribution, device: &CannDevice, dtype: IntDType) -> Int =
        native(random::ints);
    fn int_arange_step(range: Range<i64>, step: usize, device: &CannDevice, dtype: IntDType) -> Int =
        native(create::arange_step);
    fn int_any(tensor: Int, out_dtype: BoolDType) -> Bool = native(reduce::truth(op::any));
    fn int_any_dim(tensor: Int, dim: usize, out_dtype: BoolDType) -> Bool =
        native(reduce::truth_along(op::any));
    fn int_all(tensor: Int, out_dtype: BoolDType) -> Bool = native(reduce::truth(op::all));
    fn int_all_dim(tensor: Int, dim: usize, out_dtype: BoolDType) -> Bool =
        native(reduce::truth_along(op::all));
    // Burn's default for signs has the same fault.
    fn int_sign(tensor: Int) -> Int = native(one(Unary::Sign));
    fn int_expand(tensor: Int, shape: Shape) -> Int = view(view::expand);
    fn int_sort(tensor: Int, dim: usize, descending: bool) -> Int = native(sort::sort);
    fn int_sort_with_indices(tensor: Int, dim: usize, descending: bool) -> (Int, Int) =
        native(sort::int_sort_with_places);
    fn int_argsort(tensor: Int, dim: usize, descending: bool) -> Int = native(sort::int_argsort);
    fn bitwise_and(lhs: Int, rhs: Int) -> Int = native(two(Binary::BitAnd));
    fn bitwise_and_scalar(lhs: Int, rhs: Scalar) -> Int = native(by(BinaryScalar::BitAnd));
    fn bitwise_or(lhs: Int, rhs: Int) -> Int = native(two(Binary::BitOr));
    fn bitwise_or_scalar(lhs: Int, rhs: Scalar) -> Int = native(by(BinaryScalar::BitOr));
    fn bitwise_xor(lhs: Int, rhs: Int) -> Int = native(two(Binary::BitXor));
    fn bitwise_xor_scalar(lhs: Int, rhs: Scalar) -> Int = native(by(BinaryScalar::BitXor));
    fn bitwise_not(tensor: Int) -> Int = native(one(Unary::BitNot));
    fn bitwise_left_shift(lhs: Int, rhs: Int) -> Int = native(elementwise::shift(Binary::LeftShift));
    fn bitwise_left_shift_scalar(lhs: Int, rhs: Scalar) -> Int =
        native(elementwise::shift_by(Binary::LeftShift));
    fn bitwise_right_shift(lhs: Int, rhs: Int) -> Int = native(elementwise::shift(Binary::RightShift));
    fn bitwise_right_shift_scalar(lhs: Int, rhs: Scalar) -> Int =
        native(elementwise::shift_by(Binary::RightShift));
    fn int_cast(tensor: Int, dtype: IntDType) -> Int = native(copy::cast);
    fn int_unfold(tensor: Int, dim: usize, size: usize, step: usize) -> Int = view(view::unfold);

    composed:
        int_mask_select, int_square, int_powi_scalar, int_mean, int_max_abs, int_max_abs_dim,
        int_transpose, int_arange, int_pad;
}
