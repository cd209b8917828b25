//! Integer tensors of the Flex backend as plain integers.

use super::sort::{Groups, integers};
use burn::backend::Shape;
use burn::backend::flex::{FlexTensor, Layout};
use burn::tensor::{Bytes, DType, Element, IntDType, TensorData};
use bytemuck::Pod;

/// Returns the elements in row-major order, whatever the integer type.
pub(in crate::ops) fn read(tensor: &FlexTensor) -> Vec<i64> {
    let tensor = tensor.to_contiguous();
    match tensor.dtype() {
        DType::I64 => elements::<i64>(&tensor).to_vec(),
        DType::I32 => elements::<i32>(&tensor)
            .iter()
            .map(|i| i64::from(*i))
            .collect(),
        // Numbers above `i64::MAX` become `i64::MAX`, which is no valid index either.
        DType::U64 => elements::<u64>(&tensor)
            .iter()
            .map(|i| i64::try_from(*i).unwrap_or(i64::MAX))
            .collect(),
        _ => tensor.into_data().iter::<i64>().collect(),
    }
}

/// Returns the elements of a contiguous tensor.
fn elements<I: Element + Pod>(tensor: &FlexTensor) -> &[I] {
    match tensor.layout().shape().num_elements() {
        // An empty tensor may start behind the end of its storage.
        0 => &[],
        count => &tensor.storage()[tensor.layout().start_offset()..][..count],
    }
}

/// Sorts the slots of indices `[tokens, choices]` by expert.
#[track_caller]
pub(super) fn sort(indices: &FlexTensor, experts: usize) -> Groups {
    let choices = indices.layout().shape()[1];
    let indices = indices.to_contiguous();
    let indices = integers!(indices.dtype(), I => elements::<I>(&indices));
    Groups::by_expert(indices, choices, experts)
}

/// Makes a tensor of numbers, which must be below `2^31` and within the range of the type.
pub(super) fn tensor<const D: usize>(
    values: Vec<i64>,
    shape: [usize; D],
    dtype: IntDType,
) -> FlexTensor {
    let layout = Layout::contiguous(Shape::new(shape));
    match dtype {
        IntDType::I64 => FlexTensor::new(Bytes::from_elems(values), layout, DType::I64),
        IntDType::I32 => {
            let values: Vec<i32> = values.into_iter().map(|i| i as i32).collect();
            FlexTensor::new(Bytes::from_elems(values), layout, DType::I32)
        }
        other => FlexTensor::from_data(TensorData::new(values, shape).convert_dtype(other.into())),
    }
}
