//! Operations on boolean tensors.

use super::prelude::*;

operations! {
    BoolTensorOps;

    fn bool_empty, bool_zeros, bool_ones
        (shape: Shape, device: &Device<Bounded<B>>, dtype: BoolDType) -> Bool<B> = made(shape.as_slice(), dtype);
    fn bool_into_int(tensor: Bool<B>, out_dtype: IntDType) -> Int<B> = cast(&tensor, out_dtype);
    fn bool_into_float(tensor: Bool<B>, out_dtype: FloatDType) -> Float<B> = cast(&tensor, out_dtype);
    fn bool_to_device(tensor: Bool<B>, device: &Device<Bounded<B>>) -> Bool<B> = like(&tensor);
    fn bool_reshape(tensor: Bool<B>, shape: Shape) -> Bool<B> =
        shown(&tensor, &shape), if fit::reshaped(&tensor, &shape);
    fn bool_slice(tensor: Bool<B>, slices: &[Slice]) -> Bool<B> = 0, if fit::sliced(&tensor, slices);
    fn bool_slice_assign(tensor: Bool<B>, slices: &[Slice], value: Bool<B>) -> Bool<B> =
        like(&tensor), if fit::sliced(&tensor, slices);
    fn bool_mask_where(
        tensor: Bool<B>,
        mask: Bool<B>,
        value: Bool<B>,
    ) -> Bool<B> = all_three(&tensor, &mask, &value);
    fn bool_mask_fill(tensor: Bool<B>, mask: Bool<B>, value: Scalar) -> Bool<B> = both(&tensor, &mask);
    fn bool_gather(dim: usize, tensor: Bool<B>, indices: Int<B>) -> Bool<B> = picked(&tensor, &indices);
    fn bool_scatter_or(
        dim: usize,
        tensor: Bool<B>,
        indices: Int<B>,
        value: Bool<B>,
    ) -> Bool<B> = sum([like(&tensor), cast(&indices, DType::I64)]);
    fn bool_select(
        tensor: Bool<B>,
        dim: usize,
        indices: Int<B>,
    ) -> Bool<B> = selected(&tensor, dim, &indices);
    fn bool_select_or(
        tensor: Bool<B>,
        dim: usize,
        indices: Int<B>,
        value: Bool<B>,
    ) -> Bool<B> = sum([like(&tensor), cast(&indices, DType::I64)]);
    fn bool_repeat_dim(
        tensor: Bool<B>,
        dim: usize,
        times: usize,
    ) -> Bool<B> = like(&tensor).saturating_mul(times);
    fn bool_cat(tensors: Vec<Bool<B>>, dim: usize) -> Bool<B> = sum(tensors.iter().map(like));
    fn bool_equal, bool_not_equal, bool_and, bool_or, bool_xor
        (lhs: Bool<B>, rhs: Bool<B>) -> Bool<B> = both(&lhs, &rhs);
    fn bool_equal_elem, bool_not_equal_elem(lhs: Bool<B>, rhs: Scalar) -> Bool<B> = like(&lhs);
    fn bool_not(tensor: Bool<B>) -> Bool<B> = like(&tensor);
    fn bool_swap_dims(tensor: Bool<B>, dim1: usize, dim2: usize) -> Bool<B> =
        0, if fit::swapped(&tensor, dim1, dim2);
    fn bool_permute(tensor: Bool<B>, axes: &[usize]) -> Bool<B> = 0, if fit::permuted(&tensor, axes);
    fn bool_flip(tensor: Bool<B>, axes: &[usize]) -> Bool<B> = 0, if fit::axes(&tensor, axes);
    fn bool_any, bool_all(tensor: Bool<B>) -> Bool<B> = reduced_to_one(&tensor);
    fn bool_any_dim, bool_all_dim(tensor: Bool<B>, dim: usize) -> Bool<B> = reduced(&tensor, dim);
    fn bool_expand(tensor: Bool<B>, shape: Shape) -> Bool<B> = shown(&tensor, &shape);
    fn bool_unfold(
        tensor: Bool<B>,
        dim: usize,
        size: usize,
        step: usize,
    ) -> Bool<B> = windows(&tensor, dim, size, step);
    data: bool_from_data, bool_into_data, Bool;
}
