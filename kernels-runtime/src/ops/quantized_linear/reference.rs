use super::check;
use crate::ops::zero::{empty, zero};
use crate::ops::{compute_dtype, same_dtype_as};
use burn::tensor::{DType, Device, Tensor, TensorData};
use kernels_quant::OwnedWeight;
use std::ops::Range;

/// The number of elements of the weight that are decoded at a time.
const PANEL: usize = 1 << 20;

/// Computes the layer with plain tensor operations, on any backend: the definition that the kernel is verified against.
///
/// Some outputs at a time, the weight is decoded to floats of the device. A graph of autodiff keeps these until the gradient of
/// `x` is computed. Half types are computed in f32 and rounded once. The result is `[.., outputs]`, in the dtype of `x`.
///
/// # Panics
/// Panics if the last axis of `x` is not the weight's inputs.
#[track_caller]
pub fn reference<const D: usize>(x: Tensor<D>, weight: &OwnedWeight) -> Tensor<D> {
    let mut shape = x.dims();
    check(&shape, weight);
    let [outputs, inputs] = weight.shape();
    let (device, dtype) = (x.device(), x.dtype());
    shape[D - 1] = outputs;
    if x.shape().num_elements() == 0 {
        return empty(zero(x), shape);
    }
    let compute = compute_dtype(dtype);
    let rows = same_dtype_as(x, compute).reshape([-1, inputs as i64]);
    let parts = panels(weight).map(|outputs| {
        let panel = decoded(weight, outputs, &device, compute);
        rows.clone().matmul(panel.transpose())
    });
    let y = Tensor::cat(parts.collect(), 1).reshape(shape);
    same_dtype_as(y, dtype)
}

/// Divides the outputs of a weight into those that are decoded together.
pub(in crate::ops) fn panels(weight: &OwnedWeight) -> impl Iterator<Item = Range<usize>> + use<> {
    let [outputs, inputs] = weight.shape();
    let height = (PANEL / inputs).clamp(1, outputs);
    let starts = (0..outputs).step_by(height);
    starts.map(move |first| first..outputs.min(first + height))
}

/// Returns rows of a weight as a tensor of floats, rounded to `dtype`.
///
/// # Panics
/// Panics if the weight has fewer rows, or if the device does not take the dtype.
pub fn decoded(
    weight: &OwnedWeight,
    rows: Range<usize>,
    device: &Device,
    dtype: DType,
) -> Tensor<2> {
    let [_, columns] = weight.shape();
    let count = rows.len();
    let mut numbers = vec![0.0_f32; count * columns];
    // Not by the kernels' decoding, which this is compared with.
    weight.view().decode_rows(rows, &mut numbers);
    Tensor::from_data(TensorData::new(numbers, [count, columns]), (device, dtype))
}
