//! Tensors of Flex as arguments of functions, and the memory that functions write.

use burn::backend::flex::FlexTensor;
use burn::tensor::{DType, bf16, f16};
use kernels_packages::Tensor;
use kernels_simd::Values;

/// Lends a contiguous tensor, which a function reads.
///
/// # Panics
/// Panics if its elements are not floats that functions take.
pub(super) fn lent(tensor: &FlexTensor) -> Tensor<'_> {
    let layout = tensor.layout();
    let (start, count) = (layout.start_offset(), layout.num_elements());
    let shape = layout.shape().as_slice();
    macro_rules! elements {
        ($T:ty) => {{
            // An empty tensor may start behind the end of its storage.
            let elements: &[$T] = match count {
                0 => &[],
                _ => &tensor.storage::<$T>()[start..][..count],
            };
            Tensor::new(elements, shape)
        }};
    }
    let lent = match tensor.dtype() {
        DType::F64 => elements!(f64),
        DType::F32 => elements!(f32),
        DType::F16 => elements!(f16),
        DType::BF16 => elements!(bf16),
        other => panic!("no function of a package reads tensors of {other:?}"),
    };
    lent.expect("a tensor has the elements of its shape")
}

/// Returns memory for so many elements, which a function writes. It is filled with NaN, so that an element that the
/// function leaves out is seen.
///
/// # Panics
/// Panics if the elements are not floats that functions take.
pub(super) fn unwritten(count: usize, dtype: DType) -> Values {
    match dtype {
        DType::F64 => Values::F64(vec![f64::NAN; count]),
        DType::F32 => Values::F32(vec![f32::NAN; count]),
        DType::F16 => Values::F16(vec![f16::NAN; count]),
        DType::BF16 => Values::Bf16(vec![bf16::NAN; count]),
        other => panic!("no function of a package writes tensors of {other:?}"),
    }
}

/// Lends memory, which a function writes, as a tensor of this shape.
pub(super) fn lent_mut<'a>(values: &'a mut Values, shape: &[usize]) -> Tensor<'a> {
    let lent = match values {
        Values::F64(values) => Tensor::new_mut(values, shape),
        Values::F32(values) => Tensor::new_mut(values, shape),
        Values::F16(values) => Tensor::new_mut(values, shape),
        Values::Bf16(values) => Tensor::new_mut(values, shape),
    };
    lent.expect("memory for the elements of the shape")
}
