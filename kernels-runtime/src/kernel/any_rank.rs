//! Functions on tensors whose rank is known at run time only. Code that uses them is compiled once, and not once per rank.

use burn::backend::ops::{FloatTensorOps, IntTensorOps};
use burn::backend::{Dispatch, DispatchTensor, TensorMetadata};
use burn::tensor::{DType, Device, Slice, Tensor, TensorData};

/// Returns a tensor of any rank under the type of rank 1.
///
/// Burn's functions on single elements, on all elements together and on gradients don't depend on the rank of the type,
/// and `from_dispatch` does not check it. Call only these of the result. Functions that know an axis, `dims` and
/// `from_data` take the rank of the type for that of the tensor.
pub(crate) fn flat(tensor: &DispatchTensor) -> Tensor<1> {
    Tensor::from_dispatch(tensor.clone())
}

/// Returns the sizes of the axes.
pub(crate) fn sizes(tensor: &DispatchTensor) -> Vec<usize> {
    tensor.shape().as_slice().to_vec()
}

/// Returns a tensor of these numbers, in their shape and in a dtype of floats.
pub(crate) fn from_data(data: TensorData, device: &Device, dtype: DType) -> DispatchTensor {
    Dispatch::float_from_data(data.convert_dtype(dtype), device.as_dispatch())
}

/// Returns `length` slices along an axis of a tensor of floats or integers.
pub(crate) fn narrow(
    tensor: DispatchTensor,
    axis: usize,
    start: usize,
    length: usize,
) -> DispatchTensor {
    let mut shape = tensor.shape();
    let is_float = tensor.dtype().is_float();
    // Burn's backends slice no tensor without elements.
    if shape.num_elements() == 0 {
        shape[axis] = length;
        return match is_float {
            true => Dispatch::float_reshape(tensor, shape),
            false => Dispatch::int_reshape(tensor, shape),
        };
    }
    let sizes = shape.as_slice().iter();
    let mut slices: Vec<Slice> = sizes.map(|&size| Slice::from(0..size)).collect();
    slices[axis] = Slice::from(start..start + length);
    match is_float {
        true => Dispatch::float_slice(tensor, &slices),
        false => Dispatch::int_slice(tensor, &slices),
    }
}

/// Joins tensors of floats or integers along an axis. Their other sizes are equal, and there is at least one.
pub(crate) fn cat(tensors: Vec<DispatchTensor>, axis: usize) -> DispatchTensor {
    match tensors[0].dtype().is_float() {
        true => Dispatch::float_cat(tensors, axis),
        false => Dispatch::int_cat(tensors, axis),
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use burn::tensor::Int;

    #[test]
    fn axes_are_those_of_the_tensor() {
        let numbers = Tensor::<1, Int>::arange(0..12, &Device::flex()).reshape([2, 3, 2]);
        let parts = |tensor: DispatchTensor| {
            let ends = [0, 2].map(|start| narrow(tensor.clone(), 1, start, 1));
            cat(ends.to_vec(), 1)
        };
        let expected = [[[0, 1], [4, 5]], [[6, 7], [10, 11]]];
        let expected = Tensor::<3, Int>::from_data(expected, &Device::flex());
        let integers = parts(numbers.clone().into_dispatch());
        assert_eq!(sizes(&integers), [2, 2, 2]);
        let integers = Tensor::<3, Int>::from_dispatch(integers);
        integers.into_data().assert_eq(&expected.to_data(), false);
        let floats = Tensor::<3>::from_dispatch(parts(numbers.float().into_dispatch()));
        let expected = expected.float().into_data();
        floats.into_data().assert_eq(&expected, true);
    }

    #[test]
    fn tensors_without_elements_have_slices() {
        let floats = Tensor::<3>::zeros([0, 3, 2], &Device::flex());
        assert_eq!(sizes(&narrow(floats.into_dispatch(), 1, 1, 2)), [0, 2, 2]);
        let integers = Tensor::<2, Int>::zeros([3, 0], &Device::flex());
        assert_eq!(sizes(&narrow(integers.into_dispatch(), 0, 0, 1)), [1, 0]);
    }

    #[test]
    fn gradients_come_back_to_a_tensor_of_its_own_rank() {
        let device = Device::flex().autodiff();
        let x = Tensor::<3>::ones([2, 1, 3], &device).require_grad();
        let erased = x.clone().into_dispatch();
        let part = narrow(erased.clone(), 2, 0, 1);
        let of = (flat(&part) * 2.0).sum().backward();
        let own = x.grad(&of).expect("a leaf").into_data();
        own.assert_eq(
            &TensorData::from([[[2.0_f32, 0.0, 0.0]], [[2.0, 0.0, 0.0]]]),
            true,
        );
        let flat = flat(&erased).grad(&of).expect("a leaf").into_dispatch();
        assert_eq!(sizes(&flat), [2, 1, 3]);
    }
}
