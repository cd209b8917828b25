//! Operations on boolean tensors.

use burn_backend::read_sync;

use super::prelude::*;

operations! {
    BoolTensorOps, "bool";

    fn bool_empty(shape: Shape, device: &CannDevice, dtype: BoolDType) -> Bool = native(create::empty);
    fn bool_zeros(shape: Shape, device: &CannDevice, dtype: BoolDType) -> Bool = native(create::zeros);
    fn bool_ones(shape: Shape, device: &CannDevice, dtype: BoolDType) -> Bool = native(create::ones);
    fn bool_into_data(
        tensor: Bool,
    ) -> impl Future<Output = Result<TensorData, ExecutionError>> + Send = data {
        std::future::ready(transfer::data(&tensor))
    };
    fn bool_from_data(data: TensorData, device: &CannDevice) -> Bool = data {
        upload(&statics::bool_from_data, data, *device)
    };
    fn bool_into_int(tensor: Bool, out_dtype: IntDType) -> Int = native(copy::cast);
    fn bool_into_float(tensor: Bool, out_dtype: FloatDType) -> Float = native(copy::cast);
    fn bool_to_device(tensor: Bool, device: &CannDevice) -> Bool = data {
        carry(&statics::bool_to_device, tensor, *device)
    };
    fn bool_reshape(tensor: Bool, shape: Shape) -> Bool = view(view::reshape);
    fn bool_slice(tensor: Bool, slices: &[Slice]) -> Bool = view(view::slice);
    fn bool_slice_assign(tensor: Bool, slices: &[Slice], value: Bool) -> Bool = native(copy::slice_assign);
    fn bool_mask_where(tensor: Bool, mask: Bool, value: Bool) -> Bool = native(elementwise::mask_where);
    fn bool_mask_fill(tensor: Bool, mask: Bool, value: Scalar) -> Bool = native(create::mask_fill);
    fn bool_gather(dim: usize, tensor: Bool, indices: Int) -> Bool = native(index::gather);
    fn bool_scatter_or(dim: usize, tensor: Bool, indices: Int, value: Bool) -> Bool =
        native(index::scatter_or);
    fn bool_select(tensor: Bool, dim: usize, indices: Int) -> Bool = native(index::select);
    fn bool_select_or(tensor: Bool, dim: usize, indices: Int, value: Bool) -> Bool =
        native(index::select_or);
    fn bool_repeat_dim(tensor: Bool, dim: usize, times: usize) -> Bool = native(copy::repeat_dim);
    fn bool_cat(tensors: Vec<Bool>, dim: usize) -> Bool = native(copy::cat);
    fn bool_equal(lhs: Bool, rhs: Bool) -> Bool = native(elementwise::same(Comparison::Equal));
    fn bool_not_equal(lhs: Bool, rhs: Bool) -> Bool = native(elementwise::same(Comparison::NotEqual));
    fn bool_equal_elem(lhs: Bool, rhs: Scalar) -> Bool =
        native(elementwise::same_by(ComparisonScalar::Equal));
    fn bool_not_equal_elem(lhs: Bool, rhs: Scalar) -> Bool =
        native(elementwise::same_by(ComparisonScalar::NotEqual));
    fn bool_not(tensor: Bool) -> Bool = native(one(Unary::Not));
    fn bool_and(lhs: Bool, rhs: Bool) -> Bool = native(two(Binary::And));
    fn bool_or(lhs: Bool, rhs: Bool) -> Bool = native(two(Binary::Or));
    fn bool_xor(lhs: Bool, rhs: Bool) -> Bool = native(two(Binary::Xor));
    fn bool_swap_dims(tensor: Bool, dim1: usize, dim2: usize) -> Bool = view(view::swap_dims);
    fn bool_permute(tensor: Bool, axes: &[usize]) -> Bool = view(view::permute);
    fn bool_flip(tensor: Bool, axes: &[usize]) -> Bool = native(sort::flip);
    fn bool_any(tensor: Bool) -> Bool = native(reduce::all(op::any));
    fn bool_any_dim(tensor: Bool, dim: usize) -> Bool = native(reduce::along(op::any));
    fn bool_all(tensor: Bool) -> Bool = native(reduce::all(op::all));
    fn bool_all_dim(tensor: Bool, dim: usize) -> Bool = native(reduce::along(op::all));
    fn bool_argwhere(
        tensor: Bool,
        out_dtype: IntDType,
    ) -> impl Future<Output = Int> + 'static + Send = host {
        async move { argwhere(&tensor, out_dtype) }
    };
    fn bool_expand(tensor: Bool, shape: Shape) -> Bool = view(view::expand);
    fn bool_unfold(tensor: Bool, dim: usize, size: usize, step: usize) -> Bool = view(view::unfold);

    composed:
        bool_mask_select, bool_transpose;
}

/// Returns the positions of true elements. Their number is known only after counting, so the host runs it.
fn argwhere(tensor: &Bool, out_dtype: IntDType) -> Int {
    fallback::on_host(
        &statics::bool_argwhere,
        "the size of the result depends on the data",
        fallback::first_place(&[&|| tensor.place()]),
        || Ok(read_sync(Flex::bool_argwhere(tensor.host()?, out_dtype))),
    )
}
