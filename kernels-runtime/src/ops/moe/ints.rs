use burn::backend::flex::FlexTensor;
use burn::tensor::DType;

/// The elements of an integer tensor.
///
/// # Panics
/// It is not of integers, or one is above `i64::MAX`.
pub(super) fn ints(tensor: &FlexTensor) -> Vec<i64> {
    let tensor = tensor.to_contiguous();
    macro_rules! read {
        ($T:ty) => {{
            let start = tensor.layout().start_offset();
            let count = tensor.layout().shape().num_elements();
            tensor.storage::<$T>()[start..start + count]
                .iter()
                .map(|value| i64::try_from(*value).expect("an index fits i64"))
                .collect()
        }};
    }
    match tensor.dtype() {
        DType::I64 => read!(i64),
        DType::I32 => read!(i32),
        DType::I16 => read!(i16),
        DType::I8 => read!(i8),
        DType::U64 => read!(u64),
        DType::U32 => read!(u32),
        DType::U16 => read!(u16),
        DType::U8 => read!(u8),
        other => panic!("indices are integers, not {other:?}"),
    }
}
