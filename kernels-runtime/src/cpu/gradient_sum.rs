//! Sums of gradients, which Burn's Flex computes on one thread.

use super::{own_slice_mut, view};
use burn::backend::flex::FlexTensor;

/// Returns `gradient + before`, rounded to their dtype, in the memory of `gradient` if nothing else holds it.
///
/// # Panics
/// Panics if shapes or dtypes differ.
pub(crate) fn gradient_sum(gradient: FlexTensor, before: &FlexTensor) -> FlexTensor {
    assert!(
        gradient.layout().shape() == before.layout().shape() && gradient.dtype() == before.dtype(),
        "gradients of {:?} and {:?} elements, in {:?} and {:?}, are not of one tensor",
        gradient.layout().shape(),
        before.layout().shape(),
        gradient.dtype(),
        before.dtype()
    );
    let mut gradient = match gradient.is_contiguous() {
        true => gradient,
        false => gradient.to_contiguous(),
    };
    let before = before.to_contiguous();
    kernels_simd::gradient_sum::add(own_slice_mut(&mut gradient), &view(&before));
    gradient
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::backend::flex::Layout;
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::{Flex, Shape};
    use burn::tensor::{Bytes, DType, TensorData};

    #[test]
    fn sums_are_burns() {
        // The last tensor is large enough for several threads.
        for count in [0, 1, 1000, 128 * 1024 + 37] {
            for dtype in [DType::F32, DType::BF16, DType::F16, DType::F64] {
                let tensor = |step: usize| {
                    let values = (0..count).map(|i| (i * step % 997) as f32 / 31.0 - 11.0);
                    let data = TensorData::new(values.collect::<Vec<_>>(), [count]);
                    FlexTensor::from_data(data.convert_dtype(dtype))
                };
                let expected = Flex::float_add(tensor(7), tensor(13));
                let kept = tensor(7);
                for gradient in [kept.clone(), tensor(7)] {
                    let sum = gradient_sum(gradient, &tensor(13));
                    assert_eq!(sum.into_data(), expected.clone().into_data(), "{dtype:?}");
                }
                assert_eq!(kept.into_data(), tensor(7).into_data());
            }
        }
    }

    #[test]
    fn a_gradient_that_nothing_else_holds_keeps_its_memory() {
        let tensor = || FlexTensor::from_data(TensorData::ones::<f32, _>([1000]));
        let (own, held) = (tensor(), tensor());
        let [of_own, of_held] = [&own, &held].map(|tensor| tensor.bytes().as_ptr());
        let _holder = held.clone();
        assert_eq!(gradient_sum(own, &tensor()).bytes().as_ptr(), of_own);
        assert_ne!(gradient_sum(held, &tensor()).bytes().as_ptr(), of_held);
    }

    /// The parts before and behind a view belong to other tensors, or to none.
    #[test]
    fn a_view_is_added_to_alone() {
        let all = FlexTensor::from_data(TensorData::from([1.0_f32, 2.0, 3.0, 4.0]));
        let view = all.narrow(0, 1, 2);
        let ones = FlexTensor::from_data(TensorData::ones::<f32, _>([2]));
        let sum = gradient_sum(view, &ones).to_contiguous();
        assert_eq!(sum.as_slice::<f32>().expect("contiguous f32"), [3.0, 4.0]);
    }

    #[test]
    fn strided_gradients_are_added() {
        let matrix = |values: [f32; 6]| {
            let layout = Layout::contiguous(Shape::new([2, 3]));
            FlexTensor::new(Bytes::from_elems(values.to_vec()), layout, DType::F32)
        };
        let turned = |values| matrix(values).transpose(0, 1);
        let sum = gradient_sum(turned([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), &turned([1.0; 6]));
        let found = sum.to_contiguous();
        assert_eq!(
            found.as_slice::<f32>().expect("contiguous f32"),
            [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]
        );
    }

    #[test]
    #[should_panic(expected = "are not of one tensor")]
    fn gradients_of_other_shapes_are_refused() {
        let ones = |count| FlexTensor::from_data(TensorData::ones::<f32, _>([count]));
        gradient_sum(ones(3), &ones(1));
    }
}
